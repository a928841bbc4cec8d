"""How fast kbert is on this machine, alone or beside its peers; a corpus that needs no download."""
