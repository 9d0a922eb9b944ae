"""The consumer: subscription, fetching, decoding, positions, and membership of groups."""
