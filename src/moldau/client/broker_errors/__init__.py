"""Exception classes for error codes of brokers; a code without a class of its own is raised as `BrokerError`.

Import them from `moldau.client.errors`.
"""

from moldau.client.broker_errors.base import *  # noqa: F403
from moldau.client.broker_errors.groups import *  # noqa: F403
from moldau.client.broker_errors.limits import *  # noqa: F403
from moldau.client.broker_errors.records import *  # noqa: F403
from moldau.client.broker_errors.security import *  # noqa: F403
from moldau.client.broker_errors.topics import *  # noqa: F403
from moldau.client.broker_errors.transactions import *  # noqa: F403
