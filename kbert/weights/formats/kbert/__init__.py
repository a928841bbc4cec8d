"""kbert's own directories."""
