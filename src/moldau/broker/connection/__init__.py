"""Client connections: listeners, connection limits, and the session that dispatches requests in order."""
