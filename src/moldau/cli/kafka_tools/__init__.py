"""Tools with the names, flags and output of Kafka's own, so that runbooks and other people's scripts work unchanged.

`moldau kafka-tools DIR` writes a script for each; one module here is one tool. They differ from Kafka's where that
prints in the order of a hash table (here: sorted), and where it prints a stack trace (here: the line that says what
went wrong).
"""
