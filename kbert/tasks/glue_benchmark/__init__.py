"""The nine tasks of GLUE."""
