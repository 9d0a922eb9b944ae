"""Bank alerts: transactions captured from a database, against thresholds that users change at any time."""
