"""The machine, behind seams: files (`fs`), time and chance (`clock`), threads (`threads`).

Everything above takes these as arguments, so that a test or a simulation can hand in its own.
"""
