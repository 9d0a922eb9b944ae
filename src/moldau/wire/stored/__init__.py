"""What coordinators store in their logs, one module a kind of record. Generated; import the one you need."""
