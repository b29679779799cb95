"""The commands of the skiplane command line, one module for each."""
