"""Records that coordinators store in their logs, one generated module per record type."""
