"""The blocking clients: thin facades over the asyncio ones, which run on one loop thread a process."""
