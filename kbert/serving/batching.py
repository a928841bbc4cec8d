"""batching_params.pbtxt: how a server gathers requests into batches."""

import re

# As in TensorFlow Serving's session_bundle_config.proto: messages that hold a number, and plain fields.
_IN_BRACES = ("max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads")
_PLAIN = ("allowed_batch_sizes", "pad_variable_length_inputs")

BATCH_SIZES = (1, 2, 4, 8, 16, 32)

_TEXT = """\
# tensorflow_model_server --enable_batching --enable_per_model_batching_parameters reads this file; with
# --batching_parameters_file=FILE a server takes another one for all its models. docs/serving.md says how to choose.
max_batch_size {{ value: {largest} }}
batch_timeout_micros {{ value: 2000 }}
max_enqueued_batches {{ value: 100 }}
{sizes}
"""


def write_batching_parameters(path):
    """Writes the parameters that kbert's exports come with."""
    sizes = "\n".join(f"allowed_batch_sizes: {size}" for size in BATCH_SIZES)
    path.write_text(_TEXT.format(largest=BATCH_SIZES[-1], sizes=sizes), encoding="utf-8")


def read_batching_parameters(path):
    """dict of field → list of int; comments are skipped.

    Raises:
        ValueError: text that is not of this form; a number that lacks its braces, or should have none.
    """
    text = re.sub(r"#.*", "", path.read_text(encoding="utf-8"))
    entries = re.findall(r"(\w+)\s*(?::\s*(\w+)|\{\s*value\s*:\s*(\w+)\s*\})", text)
    rest = re.sub(r"(\w+)\s*(?::\s*(\w+)|\{\s*value\s*:\s*(\w+)\s*\})", "", text).strip(" \n\t,;")
    if rest:
        raise ValueError(f"expected `name {{ value: N }}` and `name: N`. Received: {rest[:60]!r}")
    found = {}
    for name, plain, wrapped in entries:
        if name in (_IN_BRACES if plain else _PLAIN):
            expected = f"{name} {{ value: N }}" if plain else f"{name}: N"
            raise ValueError(f"expected `{expected}`. Received: `{name}` with {plain or wrapped}")
        value = plain or wrapped
        found.setdefault(name, []).append(int(value) if value.isdecimal() else value)
    return found
