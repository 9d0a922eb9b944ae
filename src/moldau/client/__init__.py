"""Clients: producer, consumer and admin; one asyncio implementation, and thin facades for threads.

They speak Kafka's protocol and nothing else, so they work with Moldau and with Apache Kafka alike. What users import is
in `moldau` (blocking) and `moldau.aio` (asyncio).
"""
