"""What BERT is trained on and what it computes, as plain results; pages, TensorBoard and reports show them."""
