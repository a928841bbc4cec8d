"""The allocator's settings: freed memory stays with the process, and who has set it up himself is left alone."""

import subprocess
import sys

import pytest
from helpers.paths import ROOT

FAULTS = """
import ctypes, resource, sys, threading
if sys.argv[1] == "keep":
    from kbert.training.memory import keep_freed_memory
    if not keep_freed_memory():
        sys.exit("another C library")
library = ctypes.CDLL(None)
library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
library.free.argtypes = [ctypes.c_void_p]

def use_again():
    for _ in range(20):
        block = library.malloc(80 << 20)
        ctypes.memset(block, 1, 80 << 20)
        library.free(block)

before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
use_again()
worker = threading.Thread(target=use_again)  # TensorFlow's steps run in such
worker.start()
worker.join()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(how):
    ran = subprocess.run([sys.executable, "-c", FAULTS, how], cwd=ROOT, capture_output=True, text=True)
    if "another C library" in ran.stderr:
        pytest.skip("this Python does not run on glibc")
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout)


def test_a_large_buffer_is_mapped_once():
    assert page_faults("keep") < page_faults("as it is") / 10


def test_settings_of_the_environment_are_left_alone(monkeypatch):
    from kbert.training.memory import keep_freed_memory

    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1000000")
    assert keep_freed_memory() is False
