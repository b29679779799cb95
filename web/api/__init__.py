"""The handlers, thin over the engine's functions."""
