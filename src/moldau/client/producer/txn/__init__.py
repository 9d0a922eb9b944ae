"""Producer transactions: the state machine, its requests, and the methods that applications call."""
