"""Pull queries: a local index of each table that a continuous query writes, and the queries that it can answer.

`KeyIndex` (`key_index.py`) follows the topic of one table. `PullQueries` (`pull_queries.py`) holds the indexes of a
server, decides which SELECT they can answer, and answers it.
"""
