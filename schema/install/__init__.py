"""The parts of an installation of the schema; skiplane.schema.migrate puts them together."""
