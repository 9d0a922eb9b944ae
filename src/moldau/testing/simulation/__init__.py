"""A whole cluster in one process and in simulated time: everything that happens follows from a seed."""
