"""Schema validation: records of some topics need the id of a schema that the registry has under their subject."""
