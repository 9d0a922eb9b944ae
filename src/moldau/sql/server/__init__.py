"""Server of streaming SQL (`moldau sql serve`): runs continuous queries, and answers statements.

`supervision.py` decides which queries start, stop and start again. `runs.py` does it with Spark, in threads.
`server_group.py` says which server of the group may. `sql_server.py` puts them together with the REST API of `rest/`.
"""
