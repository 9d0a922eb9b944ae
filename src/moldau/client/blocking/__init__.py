"""Blocking clients: thin facades over the asyncio clients, which run on one loop thread per process."""
