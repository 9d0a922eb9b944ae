"""Assignment of partitions to group members: what the group coordinator and the consumer share. Pure functions."""
