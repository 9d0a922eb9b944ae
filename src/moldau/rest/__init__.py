"""REST proxy: topics, records and groups over HTTP, in Confluent's API v2 and v3, by events and by WebSocket.

A proxy is a client of the brokers and keeps nothing but consumer instances. Any number of proxies can run side by side.
Starlette, uvicorn and websockets come with `pip install 'moldau[rest]'`.
"""
