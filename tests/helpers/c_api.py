"""TensorFlow's C API from tests: a compiled program that serves a SavedModel without Python."""

import importlib.util
import pathlib
import shutil
import subprocess

import numpy as np
import pytest
from tensorflow.core.protobuf import saved_model_pb2

from helpers.paths import ROOT

SOURCE = ROOT / "tests/serving/capi/serve.c"
# What the servers 2.12 and later link of tensorflow-text, as far as kbert's models need it: nothing else is loaded.
OP_LIBRARIES = ("_normalize_ops.so", "_fast_wordpiece_tokenizer.so")
_DTYPES = {1: np.float32, 3: np.int32, 7: object, 10: bool}


def compile_program(directory, home=None):
    """Compiles tests/serving/capi/serve.c against TensorFlow's own wheel; skips the test where there is no compiler.

    Args:
        directory: where the program goes.
        home: the unpacked wheel; the installed one by default.
    """
    compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler (gcc, cc or clang)")
    home = pathlib.Path(home or _package("tensorflow"))
    libraries = ["-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2", f"-Wl,-rpath,{home}"]
    program = directory / "serve"
    command = [compiler, "-O1", "-Wall", "-Werror", "-o", program, SOURCE, f"-I{home}/include", f"-L{home}", *libraries]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


def op_libraries(names=OP_LIBRARIES, home=None):
    """Paths of op libraries in an unpacked wheel of tensorflow-text; in the installed one by default."""
    return [pathlib.Path(home or _package("tensorflow_text")) / "python/ops" / name for name in names]


def _package(name):
    return importlib.util.find_spec(name).submodule_search_locations[0]


def ask(program, directory, requests, libraries=None):
    """Answers of a process without Python, in an empty environment.

    Args:
        program: from `compile_program`.
        directory: one version of a SavedModel.
        requests: list of (signature, dict of input → array of bytes).
        libraries: paths of op libraries; `op_libraries()` by default.

    Returns:
        list of dict of output → NumPy array, or of str (an error) for a request that failed.
    """
    model = saved_model_pb2.SavedModel.FromString((directory / "saved_model.pb").read_bytes())
    signatures = model.meta_graphs[0].signature_def
    lines = []
    for name, inputs in requests:
        signature = signatures[name]
        for key, value in inputs.items():
            value = np.array(value, dtype=object)
            words = [value.ndim, *value.shape, *(_hex(string) for string in value.ravel())]
            lines.append(f"in {signature.inputs[key].name} {' '.join(map(str, words))}")
        lines += [f"out {signature.outputs[key].name}" for key in sorted(signature.outputs)] + ["run"]
    libraries = op_libraries() if libraries is None else libraries
    run = subprocess.run(
        [program, directory, *libraries],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={"TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    if run.returncode:
        raise RuntimeError(run.stderr)
    return _answers(run.stdout, [sorted(signatures[name].outputs) for name, _ in requests])


def _hex(string):
    string = string.encode() if isinstance(string, str) else string
    return string.hex() or "-"


def _answers(printed, outputs):
    answers, tensors = [], []
    for line in printed.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "tensor":
            tensors.append(_array(rest.split(" ")))
        elif kind == "error":
            answers.append(rest)
        elif kind == "done":
            answers.append(dict(zip(outputs[len(answers)], tensors, strict=True)))
            tensors = []
    assert len(answers) == len(outputs), printed[-500:]
    return answers


def _array(words):
    dtype, rank = int(words[0]), int(words[1])
    shape, values = [int(word) for word in words[2 : 2 + rank]], words[2 + rank :]
    if dtype == 7:
        values = [b"" if value == "-" else bytes.fromhex(value) for value in values]
    elif dtype == 10:
        values = [value == "1" for value in values]
    return np.array([*values, None], dtype=object)[:-1].astype(_DTYPES[dtype]).reshape(shape)
