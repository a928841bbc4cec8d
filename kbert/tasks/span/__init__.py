"""Answers that are a span of a text: SQuAD 1.1 and 2.0."""
