"""Servers that fail, and their standbys."""
