"""The playground: what BERT is trained on and what models answer, as a page (`kbert playground`)."""
