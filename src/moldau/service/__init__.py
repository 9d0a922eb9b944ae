"""Services: what all HTTP services share.

Web application, server, login, settings, state in a topic, and membership in a group.

A service runs beside the brokers, as their client. Nothing is imported here: Starlette, uvicorn and httpx come with
`pip install 'moldau[service]'`, and a module that needs one of them imports it.
"""
