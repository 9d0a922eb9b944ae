"""A ZooKeeper of one's own, for development and tests: the server that is inside of PySpark's jars, as processes here.

Production points at an ensemble that somebody runs; nothing of this is needed there.
"""
