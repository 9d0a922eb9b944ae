"""Errors of the clients: each message says what happened, to what, and what to do.

`MoldauError` is the base class of all. If `retriable` is true, the same call may succeed later; clients retry such
errors themselves until the timeout of the call is over. An error code of a broker is raised as a `BrokerError`, with a
subclass for each code that applications handle most often.
"""

from __future__ import annotations

from moldau.client.broker_errors import *  # noqa: F403
from moldau.client.client_errors import *  # noqa: F403
