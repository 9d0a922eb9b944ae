"""Benchmarks of the broker and the clients, as ratios that stay comparable on other machines.

Run them with `python -m bench` or `make bench`. Every benchmark is one file with a `run` that yields rows;
`__main__.py` lists them. The broker is a normal process, and kcat produces the load wherever possible. Each result is
compared with the cost of the minimal loop for the same work ("bare", see bare.py), measured on the same machine at the
same time.
"""
