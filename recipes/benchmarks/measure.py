"""One benchmark by its name."""

import importlib

_FUNCTIONS = {  # name → module of benchmarks, function
    "tokenize": ("text", "tokenize"),
    "input": ("text", "pretraining_input"),
    "rows": ("rows", "rows"),
    "feed": ("feed", "feed"),
    "peak": ("peak", "peak"),
    "train": ("training", "train"),
    "board": ("board", "board"),
    "encode": ("encoding", "encode"),
    "serve": ("serving", "serve"),
    "operations": ("operations", "operations"),
}
PARTS = tuple(_FUNCTIONS)


def measure(part: str, settings) -> dict:
    """What one benchmark gives, with its name and the most memory that this process has had."""
    from kbert.training.flops import peak_memory_bytes

    module, function = _FUNCTIONS[part]
    result = getattr(importlib.import_module(f"benchmarks.{module}"), function)(settings)
    return {"part": part, **result, "peak_memory_mib": round(peak_memory_bytes() / 2**20)}
