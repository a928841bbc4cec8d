"""Sets up the C library's memory allocator for steps that need the same large buffers again and again."""

import contextlib
import ctypes
import os

_GIVE_BACK_ABOVE, _SEPARATE_MAPPINGS, _ARENAS = -1, -4, -8  # M_TRIM_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX of malloc.h
_NEVER = -1


def keep_freed_memory() -> bool:
    """Let glibc keep freed memory for the next tensor instead of returning it to the kernel.

    Otherwise every large tensor of every step is mapped, cleared page by page and unmapped again: on a virtual machine
    that took more than a third of the time of a tiny training step, and half of one with 384 positions
    (docs/maintainers/log.md). All threads allocate from one arena, because other arenas cannot hold tensors above 64 MB
    and return their memory.
    Memory use stays at its peak between steps. If glibc's `MALLOC_...` environment variables are set, nothing is
    changed.

    Returns:
        Whether it was done; not with another C library or allocator.
    """
    if any(name.startswith("MALLOC_") for name in os.environ):
        return False
    with contextlib.suppress(OSError, AttributeError, ValueError):  # no glibc here: macOS, Windows, musl
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 (musl has a mallopt too, which does nothing)
        settings = (_SEPARATE_MAPPINGS, 0), (_GIVE_BACK_ABOVE, _NEVER), (_ARENAS, 1)
        return all([library.mallopt(*setting) for setting in settings])
    return False
