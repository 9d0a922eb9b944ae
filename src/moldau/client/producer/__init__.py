"""Producer: collects records into batches, sends them to partition leaders, and reports results in futures."""
