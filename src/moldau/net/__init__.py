"""Framed connections over asyncio, shared by broker and client.

Knows sizes and bytes; knows nothing of what is in a frame.
"""
