"""Measures kbert's speed, alone or compared with other libraries, on a corpus that needs no download."""
