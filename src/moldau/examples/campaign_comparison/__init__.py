"""Campaign comparison: which variant of an advertisement sells more, and how certain that is."""
