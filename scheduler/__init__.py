"""The loops that keep the engine moving."""
