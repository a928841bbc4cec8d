"""What `kbert.inspect` has found, as pictures, TensorBoard data and a report."""
