"""Consumer: subscription, fetching, decoding, positions, commits, and membership of groups."""
