"""REST API of an SQL server: statements, queries and their results as JSON."""
