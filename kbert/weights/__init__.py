"""Reading and writing checkpoints."""

from kbert.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Format": "formats.registry",
        "LoadReport": "report",
        "ParityReport": "parity",
        "Pretrained": "load",
        "build_pipeline": "build_pipeline",
        "extend_vocabulary": "extend_vocabulary",
        "from_keras_hub": "keras_hub_bridge",
        "load_pretrained": "load",
        "load_slots": "formats.google",
        "local_source": "source",
        "measure_parity": "parity",
        "open_checkpoint": "open_checkpoint",
        "register_format": "formats.registry",
        "resolve_source": "source",
        "save_pretrained": "save",
        "to_keras_hub": "keras_hub_bridge",
    },
)
