"""Replication: the partitions that this broker hosts, as leader or follower, and the requests that wait on them."""
