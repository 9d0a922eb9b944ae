"""What several kinds of tests share: broker processes, raw connections, waiting for conditions."""
