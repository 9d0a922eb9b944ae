"""Group coordinator: members of groups, their assignments, and committed offsets.

State machines over the records of `__consumer_offsets`. Nothing in this package waits, reads a clock or opens a file.
"""
