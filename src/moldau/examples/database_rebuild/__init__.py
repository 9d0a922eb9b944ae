"""A database rebuilt from its log: a replica that follows, and copies as of any time."""
