"""Files of tensors: safetensors, pickles, HDF5, TensorFlow checkpoints."""
