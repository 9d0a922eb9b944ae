"""A class for each error code that an application may want to catch; codes without one come as plain `BrokerError`.

Import them from `moldau.client.errors`.
"""

from moldau.client.broker_errors.base import *  # noqa: F403
from moldau.client.broker_errors.groups import *  # noqa: F403
from moldau.client.broker_errors.limits import *  # noqa: F403
from moldau.client.broker_errors.records import *  # noqa: F403
from moldau.client.broker_errors.topics import *  # noqa: F403
from moldau.client.broker_errors.transactions import *  # noqa: F403
