"""Social network: counters of posts, trending posts per minute, and the burst of a launch day."""
