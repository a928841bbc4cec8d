"""What every test shares: quiet TensorFlow, fixed seeds, the real data beside the project, no silent skips in CI."""

import ctypes
import functools
import gc
import logging
import os
import random
import sys
import typing

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pytest
from helpers.paths import ROOT

# TensorFlow writes to standard error when it is imported. The process that hands out tests to others (`-n`) would keep
# that to the end and print it after pytest's closing line. So only fixtures import it, which run in the others.

# TensorFlow asks for each argument of each operation whether it follows a protocol; Python 3.12 remembers the answer.
if sys.version_info < (3, 12):
    typing._get_protocol_attrs = functools.cache(typing._get_protocol_attrs)
gc.set_threshold(50_000, 20, 20)  # tracing makes millions of objects, few of them garbage; `_forget` collects

_LIBC = ctypes.CDLL(None)
REQUIRE_OPTIONAL = os.environ.get("KBERT_REQUIRE_OPTIONAL") == "1"


def pytest_configure(config):
    """XLA does not optimise what computes for less time than that takes: all programs of the tests but the slow ones.

    JAX, in processes of its own, reads the variable too.
    """
    if "not slow" in config.option.markexpr:
        plain = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
        os.environ.setdefault("XLA_FLAGS", plain)


@pytest.fixture(scope="session")
def shared_data():
    """The directory of real data beside the project; tests that need it are skipped where it is absent."""
    path = ROOT.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip("../shared/data is absent: this test needs the real data")
    return path


@pytest.fixture(scope="session")  # before what the tests of a module share is made
def apache_beam():
    """The module; tests that need it are skipped where the extra beam is not installed."""
    return pytest.importorskip("apache_beam", reason="needs apache-beam (the extra beam)")


@pytest.fixture(autouse=True)
def _propagate():
    """`log_to_console`, which `run_command` calls, keeps kbert's lines from the fixture caplog."""
    logging.getLogger("kbert").propagate = True


@pytest.fixture(autouse=True, scope="session")
def _keep_kernels():
    """`tf.random.set_seed`, which `keras.utils.set_random_seed` calls, without what it does besides.

    It makes TensorFlow forget every kernel, so that each function that tests share is optimised anew when it is next
    called, for up to two seconds. Only stateful random operations need that, and neither Keras nor kbert has any.
    """
    import tensorflow as tf
    from tensorflow.python.eager.context import context

    def set_seed(seed):
        context()._seed, context()._rng = seed, random.Random(seed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf.random, "set_seed", set_seed)
        yield


@pytest.fixture(autouse=True, scope="session")
def _keep_freed_memory():
    """As `choose_hardware` does for the recipes."""
    from kbert.training.memory import keep_freed_memory

    keep_freed_memory()


@pytest.fixture(autouse=True, scope="session")
def _skip_sets():
    """`find_skip_sets_once`, for all tests."""
    from helpers.skip_sets import find_skip_sets_once

    with pytest.MonkeyPatch.context() as patch:
        find_skip_sets_once(patch.setattr)
        yield


@pytest.fixture(autouse=True)
def _seed():
    import keras

    keras.utils.set_random_seed(1)


@pytest.fixture(autouse=True, scope="module")
def _curves_alone(request):
    """`curves_alone`, but in the tests of inspection."""
    from helpers.curves_alone import curves_alone

    with pytest.MonkeyPatch.context() as patch:
        if "tests/inspection/" not in request.node.nodeid:
            curves_alone(patch.setattr)
        yield


@pytest.fixture
def eagerly():
    """`run_eagerly`, for the time of a test."""
    from helpers.run_eagerly import run_eagerly

    with run_eagerly():
        yield


_GROWTH = 2**30  # bytes
_trimmed_at = [0]  # bytes of memory after freed memory was last given back


def _memory():
    """Bytes of this process in memory; infinity where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return float("inf")


@pytest.fixture(autouse=True, scope="module")
def _forget():
    """Keras's global state and cycles; and where memory has grown by much, freed memory.

    Without this a process of hundreds of tests grew to 6 GB. What survives is frozen, after all that the module shared
    is gone: else each collection, also those that tests ask for, looks at all survivors again, for seconds in the end.
    TensorFlow's kernels, which `clear_session` drops too, stay until then: see `_keep_kernels`.
    """
    yield
    import keras
    from tensorflow.python.eager.context import context

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(context(), "clear_kernel_cache", lambda: None)
        keras.backend.clear_session()  # collects
    gc.freeze()
    if _memory() > _trimmed_at[0] + _GROWTH:
        context().clear_kernel_cache()
        if hasattr(_LIBC, "malloc_trim"):  # glibc: what `keep_freed_memory` keeps
            _LIBC.malloc_trim(0)
        _trimmed_at[0] = _memory()


_TOGETHER = (  # folders and files that run in one process, as they share
    ("tests/serving/",),  # exported models
    (  # the process that forks others (helpers/forked_python.py), and a traced model (helpers/tiny_pretraining.py)
        "tests/faults/test_full_disk.py",
        "tests/inspection/board/",
        "tests/layers/test_replica_dropout.py",
        "tests/pipelines/test_pipeline.py",
        "tests/text/test_tokenizer.py",
        "tests/training/test_console.py",
        "tests/training/test_divergence.py",
        "tests/training/test_hardware.py",
        "tests/training/test_mirrored.py",
        "tests/training/test_resume.py",
        "tests/training/test_signals.py",
    ),
    ("tests/pretraining/",),  # a corpus, its records, and graphs of datasets
    (  # models in every format, and KerasHub, whose import takes seconds
        "tests/weights/",
        "tests/faults/test_checkpoint_sizes.py",
        "tests/faults/test_fuzz_checkpoints.py",
        "tests/faults/test_nested_json.py",
        "tests/recipes/test_benchmarks.py",
        "tests/commands/test_checkpoint_recipes.py",
        "tests/test_pages.py",
    ),
    ("tests/pretraining/run/",),  # graphs of datasets
    ("tests/inspection/playground/",),  # a browser, and models in memory
)
_FIRST = [
    f"tests/{room}/"
    for room in ("pipelines", "commands", "finetuning", "recipes", "tasks", "experiments", "training", "inspection")
]


def _shares_with(nodeid):
    """The folders and files, one of which is the test's own, that run in one process with it."""
    file = nodeid.split("::")[0]
    return next((group for group in _TOGETHER if file.startswith(group)), (file,))


def pytest_collection_modifyitems(items):
    """The dearest first, so that no process is left with one of them at the end while the others are done."""
    order = {group: number for number, group in enumerate((*_TOGETHER, *_FIRST))}

    def place(item):
        if (group := _shares_with(item.nodeid)) in order:
            return order[group]
        return next((order[room] for room in _FIRST if item.nodeid.startswith(room)), len(order))

    items.sort(key=place)
    gc.freeze()  # collections need not look at TensorFlow's million objects again and again


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """One process more than cores: a fifth of the time of two is spent on waiting, for servers and other processes."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Which tests run in one process: those of a file, and of `_TOGETHER`.

    (pytest-xdist's own way to say this, --dist loadgroup, does nothing under pytest 9.2.)
    """
    from xdist.scheduler import LoadScopeScheduling

    class BySharedFixtures(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return _shares_with(nodeid)[0]

    return BySharedFixtures(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Under KBERT_REQUIRE_OPTIONAL=1 (.ci/run) a parity test that skips for a missing package is a failure."""
    report = yield
    if (
        REQUIRE_OPTIONAL
        and report.skipped
        and item.get_closest_marker("parity")
        and "shared" not in str(report.longrepr)
    ):
        report.outcome = "failed"
        report.longrepr = f"skipped where it must run: {report.longrepr}"
    return report
