"""Transaction coordinator decisions: transactional ids, producer fencing, and the end of transactions.

Pure: time, producer ids and requests come in, records and answers go out. The broker stores, waits and writes markers.
"""
