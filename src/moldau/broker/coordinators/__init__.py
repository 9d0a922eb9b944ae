"""Group and transaction coordinators of a broker, over the partitions of their internal topics."""
