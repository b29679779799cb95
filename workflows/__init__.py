"""Workflows in Python: building them, and what their submitters hold."""
