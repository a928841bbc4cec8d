"""Reading and writing checkpoints."""

from kbert.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Format": "formats.format",
        "LoadReport": "report",
        "ParityReport": "diagnostics.parity",
        "Pretrained": "load",
        "load_pretrained": "load",
        "measure_parity": "diagnostics.parity",
        "register_format": "formats.registry",
        "save_pretrained": "save",
    },
)
