"""The engine in SQL, and the only Python that speaks SQL."""
