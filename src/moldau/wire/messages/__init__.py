"""Requests and responses, one module an API, and data they carry. Generated; import the one you need."""
