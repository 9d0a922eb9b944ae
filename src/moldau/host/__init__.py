"""Interfaces to the machine: files (`fs`), time and randomness (`clock`), threads (`threads`) and processes.

All other packages take these as arguments, so that a test or a simulation can pass its own.
"""
