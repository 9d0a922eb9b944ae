"""Coordinator runtime, shared by the group coordinator and the transaction coordinator."""
