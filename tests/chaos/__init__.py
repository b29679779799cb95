"""Processes that are killed while they work."""
