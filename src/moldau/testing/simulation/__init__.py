"""Deterministic simulation: a whole cluster in one process and in virtual time, reproducible from a seed."""
