"""Streaming SQL over topics: Spark SQL with a few statements for streams, tables and continuous queries.

A text is split into statements (`parser.py`), which are data (`statements.py`). `SqlSession` (`session.py`) runs them,
and returns a result (`results.py`). Spark parses and runs every query; nothing here parses an expression. Declarations
and the queries that servers run are in compacted topics (`catalogue.py`).
"""
