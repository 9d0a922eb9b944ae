"""Clients: producer, consumer and admin, implemented once with asyncio, with thin facades for threads.

They use only Kafka's protocol and therefore work with Moldau and with Apache Kafka. Users import them from `moldau`
(blocking) and `moldau.aio` (asyncio).
"""
