"""Helpers of several kinds of tests: broker processes, raw connections, waiting for conditions."""
