"""Claims tasks and runs them."""
