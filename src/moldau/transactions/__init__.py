"""The transaction coordinator's decisions: who may write under a transactional id, and how its transactions end.

Pure: time, producer ids and requests come in, records and answers go out. The broker stores, waits and writes markers.
"""
