"""Client quotas: which quota applies, how rates are measured, and how long a client is throttled."""
