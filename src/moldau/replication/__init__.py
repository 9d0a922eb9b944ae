"""Partitions as this broker hosts them: what may be appended, what may be seen, and who waits for it."""
