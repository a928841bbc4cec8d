"""SavedModels for TF Serving."""
