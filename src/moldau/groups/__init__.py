"""The group coordinator: who is in a group, who reads which partition, and how far everybody has read.

Plain state machines over the records of `__consumer_offsets`. Nothing here waits, reads a clock or touches a file.
"""
