"""Shell of `moldau sql`: reads statements from a terminal or a script, runs them and shows their results.

`terminal.py` is the interactive shell, `scripts.py` runs texts. Both run each statement as a `StatementRun`
(`statement_run.py`), which Ctrl-C ends, and show its result with a `ResultWriter` (`result_writers.py`).
"""
