"""Followers of a topic: server-sent events and WebSocket, one consumer for many of them."""
