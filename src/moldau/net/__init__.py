"""Framed connections over asyncio, for broker and client.

This package handles frame sizes and bytes; `caller` and `exchange` match responses to requests.
"""
