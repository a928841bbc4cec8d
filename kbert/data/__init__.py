"""Token ids to batches, in graph."""
