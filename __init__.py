"""Skiplane: a distributed task scheduler that lives in PostgreSQL."""

__version__ = "0.1.0.dev0"
