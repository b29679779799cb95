"""Everything behind a pooler in transaction mode."""
