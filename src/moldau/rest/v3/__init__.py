"""API v3: clusters, brokers, topics, settings, partitions, groups, access control and records."""
