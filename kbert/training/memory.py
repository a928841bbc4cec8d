"""Memory: the C library's allocator, batches that do not fit, and how much was used.

Shapes: B batch, C choices, S sequence, H hidden, L layers.
"""

import contextlib
import ctypes
import os
import pathlib
from collections.abc import Iterator

import keras

from kbert.errors import UserError
from kbert.models.bert_model import BertModel
from kbert.training.flops import device_name

_SHORTEST = 4  # tokens of a row if batches are cut to their longest row: the least that `trim_padding` leaves
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_SIGNS = ("OOM when allocating", "RESOURCE_EXHAUSTED", "Out of memory", "failed to allocate memory")
_GIVE_BACK_ABOVE = -1  # M_TRIM_THRESHOLD of malloc.h
_SEPARATE_MAPPINGS = -4  # M_MMAP_MAX
_ARENAS = -8  # M_ARENA_MAX
_NEVER = -1


class OutOfMemory(UserError, ValueError):
    """A batch does not fit into memory; the message names its size."""


def check_batch_memory(model: keras.Model, batch_size: int, sequence_length: int | None = None) -> None:
    """Raises OutOfMemory if training on such a batch needs more memory than the machine has, by a lower bound.

    The bound counts what every layer always keeps for the gradient: its input, queries, keys, values and the
    intermediate activations, B * S * L * (4 H + intermediate) numbers. Frozen layers below the first trainable one keep
    nothing and are not counted, nor are attention probabilities, logits and the optimizer. Of a model compiled with
    `micro_batches` only one of them is counted. With a GPU or TPU, or several machines, nothing is checked.
    """
    available = machine_memory()
    if not isinstance(model, BertModel) or available is None or "TF_CONFIG" in os.environ or device_name() != "CPU":
        return
    needed = activation_bytes(model, batch_size, sequence_length or _SHORTEST)
    if needed > available:
        raise OutOfMemory(
            f"A batch of {batch_size:,} rows{_of_tokens(sequence_length)} does not fit into memory: training on it "
            f"takes at least {_gibibytes(needed)}. This machine has {_gibibytes(available)}. Make the batch smaller."
        )


def activation_bytes(model: BertModel, batch_size: int, sequence_length: int) -> int:
    """Bytes that a step always keeps for the gradient, by the bound of `check_batch_memory`."""
    config = model.config
    tokens = batch_size // model.micro_batches * sequence_length
    numbers = tokens * _layers_with_gradient(model) * (4 * config.hidden_dim + config.intermediate_dim)
    half = keras.dtype_policies.get(model.dtype_policy).compute_dtype in ("bfloat16", "float16")
    return numbers * (2 if half else 4)


def _layers_with_gradient(model: BertModel) -> int:
    encoder = getattr(model, "encoder", None)
    if encoder is None or encoder.embeddings.trainable_variables:
        return model.config.num_layers
    learning = [number for number, block in enumerate(encoder.blocks) if block.trainable_variables]
    return len(encoder.blocks) - learning[0] if learning else 0


@contextlib.contextmanager
def memory_errors(batch_size: int | None, sequence_length: int | None = None) -> Iterator[None]:
    """Turns a failed allocation into an OutOfMemory that names batch size and sequence length."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, MemoryError) and not any(sign in str(error) for sign in _SIGNS):
            raise
        raise OutOfMemory(
            f"Memory was not enough for a batch of {batch_size or 'unknown'} rows{_of_tokens(sequence_length)}. Make "
            "the batch smaller (--batch-size) or divide it (--accumulate), make the rows shorter (--sequence-length), "
            "or train in mixed_bfloat16 (--precision)."
        ) from error


def machine_memory() -> int | None:
    """Bytes of main memory that this process may use; None if the system does not say."""
    limits = []
    with contextlib.suppress(AttributeError, ValueError, OSError):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in _CGROUPS:
        with contextlib.suppress(OSError, ValueError):  # "max" is not a number
            limits.append(int(pathlib.Path(path).read_text()))
    return min(limits, default=None)


def _of_tokens(sequence_length: int | None) -> str:
    return f" of {sequence_length:,} tokens" if sequence_length else ""


def _gibibytes(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB"


def keep_freed_memory() -> bool:
    """Lets glibc keep freed memory for the next tensor; whether it was done: not with another C library or allocator.

    Otherwise every large tensor of every step is mapped, cleared page by page and unmapped again: more than a third of
    the time of a tiny training step (docs/maintainers/log.md). All threads allocate from one arena, because other
    arenas cannot hold tensors above 64 MB and return their memory. Memory use stays at its peak between steps. If
    glibc's `MALLOC_...` environment variables are set, nothing is changed.
    """
    if any(name.startswith("MALLOC_") for name in os.environ):
        return False
    with contextlib.suppress(OSError, AttributeError, ValueError):  # no glibc here: macOS, Windows, musl
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 (musl has a mallopt too, which does nothing)
        settings = (_SEPARATE_MAPPINGS, 0), (_GIVE_BACK_ABOVE, _NEVER), (_ARENAS, 1)
        return all([library.mallopt(*setting) for setting in settings])
    return False
