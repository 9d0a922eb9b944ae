"""Hand-tuned codecs for the two APIs that carry the data, Produce and Fetch.

The generated modules are their readable twins: a parity test feeds both the same bytes and the same values in every
version.
"""
