"""Tags of words: named entities."""
