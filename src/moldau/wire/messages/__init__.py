"""Requests and responses, one generated module per API, and data that they carry."""
