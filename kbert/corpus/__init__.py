"""Files of prose → documents of sentences → records."""
