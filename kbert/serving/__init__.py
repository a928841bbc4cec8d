"""SavedModels for TensorFlow Serving, their audit, and a client."""

from kbert.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "AuditReport": "audit",
        "ExportedPipeline": "exported_pipeline",
        "ServingClient": "client",
        "ServingError": "rest_transport",
        "ServingLimits": "signatures",
        "Signature": "saved_model_file",
        "signatures": "signatures",
        "trained_options": "exported_pipeline",
    },
)
