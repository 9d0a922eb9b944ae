"""What the broker costs, as ratios that survive a change of machine: `python -m bench`, or `make bench`.

Every benchmark is a file of its own with a `run` that yields rows; `__main__.py` lists them. The broker is a process as
people start it, the load comes from kcat wherever it can, and a result stands beside what the same machine needed in
the same minutes for the least that could be done ("bare", see bare.py).
"""
