"""Connectors that come with Moldau.

Nothing is imported here: each connector is imported by its name when a configuration asks for it.
"""
