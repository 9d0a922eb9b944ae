"""Tools with the names, options and output of Kafka's tools, for existing scripts and runbooks.

`moldau kafka-tools DIR` writes a script per tool; each module here is one tool. They differ from Kafka's in two ways:
where Kafka's tool prints in the order of a hash table, the output is sorted, and where it prints a stack trace, only
the line with the error is printed.
"""
