"""Hand-tuned codecs for Produce and Fetch, the two APIs that carry the data.

The generated modules are their reference: a parity test compares both with the same bytes and values in every version.
"""
