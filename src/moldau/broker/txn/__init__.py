"""Transactions across partitions and brokers: adding partitions, verifying them, and writing their markers."""
