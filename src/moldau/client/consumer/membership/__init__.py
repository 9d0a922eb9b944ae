"""Membership of consumer groups: two pure state machines, one a protocol, and the shell that runs them in the loop."""
