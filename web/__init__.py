"""The HTTP face of Skiplane."""
