"""Local ZooKeeper for development and tests: processes that run the server in PySpark's jars.

In production, brokers use an existing ensemble, and this package is not needed.
"""
