"""What a model gets right and wrong on held-out examples, as texts and pictures."""
