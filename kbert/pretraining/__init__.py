"""Documents → sentence pairs → masked batches, and their statistics."""
