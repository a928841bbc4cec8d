"""The kbert directory."""
