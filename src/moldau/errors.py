"""Every error of the clients: `from moldau.errors import TopicAlreadyExists`. See `moldau.client.errors`."""

from __future__ import annotations

from moldau.client.errors import *  # noqa: F403
