"""Topics as tables: sampled and declared columns, formats of keys and values, batch and streaming frames."""
