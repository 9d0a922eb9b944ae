"""Parts shared by request handlers: the handler registry, delayed requests, fetch sessions, views of partitions."""
