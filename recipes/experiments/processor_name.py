"""The machine's processor."""

import os
import platform


def processor_name() -> tuple[str, int | None]:
    """(name, number of cores) as Linux tells them, or as Python does."""
    try:
        with open("/proc/cpuinfo") as file:
            fields = dict(line.split(":", 1) for line in file if ":" in line)
        name = next(value.strip() for key, value in fields.items() if key.strip() == "model name")
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    return name, os.cpu_count()
