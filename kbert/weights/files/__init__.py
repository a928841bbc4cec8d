"""Files of tensors: safetensors, pickles, TensorFlow checkpoints."""
