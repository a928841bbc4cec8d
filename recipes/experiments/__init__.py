"""The paper's tables as experiments: pre-trainings and fine-tunings, shared between rows, with a verdict for each."""
