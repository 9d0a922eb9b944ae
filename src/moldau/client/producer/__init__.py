"""The producer: records in from any thread, batches out to the partitions' leaders, each record's fate in a future."""
