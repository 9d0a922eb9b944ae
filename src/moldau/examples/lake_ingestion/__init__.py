"""Ingestion into a lake, with a speed layer that is reconciled with the batch layer."""
