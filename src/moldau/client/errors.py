"""Every error that a client raises: one hierarchy, each saying what happened, to what, and what to do.

`MoldauError` is the base of all. Those with `retriable` set may pass by themselves: the same call, made again later,
can succeed; clients retry them on their own until the time-out of the call is over. What a broker answered with an
error code is a `BrokerError`, with a class for each code that an application may want to catch.
"""

from __future__ import annotations

from moldau.client.broker_errors import *  # noqa: F403
from moldau.client.own_errors import *  # noqa: F403
