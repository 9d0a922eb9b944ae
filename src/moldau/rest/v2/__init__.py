"""API v2: topics, produce, and consumer instances; a file per resource."""
