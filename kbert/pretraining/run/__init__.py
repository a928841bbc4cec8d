"""Pre-training as one call, its records, stored batches and evaluation."""
