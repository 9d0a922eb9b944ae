"""Errors of schemas. They are ValueErrors: a client reports them as SerializationError or DeserializationError."""

from __future__ import annotations


class SchemaError(ValueError):
    """Something is wrong with a schema, or with data that should have it."""


class InvalidSchema(SchemaError):
    """A text is not a schema of its type, or a reference of it cannot be resolved. The message says where."""


class RegistryError(SchemaError):
    """The registry has refused a request, or could not be reached (`status` 0)."""

    def __init__(self, message: str, *, status: int = 0, code: int = 0) -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status."""
        self.code = code
        """The registry's own code, for example 40401 for an unknown subject."""
