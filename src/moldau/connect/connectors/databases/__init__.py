"""Connectors for relational databases: tables to topics and back, for SQLite, PostgreSQL and MariaDB.

The names of classes and settings are those of Confluent's JDBC connectors. No JDBC driver is used: SQLite is in Python,
PostgreSQL is read and written by ADBC as Arrow columns, MariaDB and MySQL by PyMySQL.
"""
