"""The C library's memory allocator, set up for steps that need the same large buffers again and again."""

import contextlib
import ctypes
import os

_GIVE_BACK_ABOVE, _SEPARATE_MAPPINGS, _ARENAS = -1, -4, -8  # M_TRIM_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX of malloc.h
_NEVER = -1


def keep_freed_memory() -> bool:
    """Let glibc keep memory that was freed for the next tensor, where it would give it back to the kernel.

    Otherwise every large tensor of every step is mapped, cleared page by page and unmapped again: on a virtual machine
    that took more than a third of the time of a tiny training step, and half of one with 384 positions (docs/log.md).
    All threads allocate from one arena, as the others hold no tensor above 64 MB and give theirs back. Memory use stays
    at its peak between steps. Whoever sets glibc's `MALLOC_...` environment variables is left alone.

    Returns:
        Whether it was done: not with another C library, or another allocator in its place.
    """
    if any(name.startswith("MALLOC_") for name in os.environ):
        return False
    with contextlib.suppress(OSError, AttributeError, ValueError):  # no glibc here: macOS, Windows, musl
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 (musl has a mallopt too, which does nothing)
        settings = (_SEPARATE_MAPPINGS, 0), (_GIVE_BACK_ABOVE, _NEVER), (_ARENAS, 1)
        return all([library.mallopt(*setting) for setting in settings])
    return False
