"""transformers on torch as a peer: its settings, and the process that runs one of them."""

import importlib.util
import json
import logging
import os
import pathlib
import subprocess
import sys

_LOGGER = logging.getLogger("kbert")
_WORKER = pathlib.Path(__file__).with_name("torch_worker.py")
WORKS = {  # of `benchmarks.torch_worker`, by the names of the peers
    "train": {
        "transformers on torch, as published (head on all positions)": "train",
        "transformers on torch, head on the masked positions": "train_masked_positions",
    },
    "encode": {"transformers on torch": "encode"},
}
# Tensors stay in the process, on huge pages: without this torch maps and clears every large tensor of every step anew.
_ALLOCATORS = {
    "default allocator": {},
    "tuned allocator": {
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": "20000000000",
        "MALLOC_TOP_PAD_": "268435456",
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    },
}
_PRECISIONS = {
    "float32": ("float32",),
    "mixed_bfloat16": ("autocast bfloat16", "bfloat16 model"),
    "mixed_float16": ("autocast float16", "float16 model"),
}


class TorchPeer:
    """A process that runs transformers on torch in one setting, started when it is first asked.

    Args:
        work: "train", "train_masked_positions", "encode" or "serve".
        setting: str, a precision of `torch_settings`; its last words name the allocator.
        **job: what the work needs: config (of transformers), batch_size, sequence_length, max_predictions, model.

    Raises:
        RuntimeError: the process ended.
    """

    def __init__(self, work, setting, **job):
        self.job = {"work": work, "setting": setting, **job}
        self._process = None

    def seconds(self, **request) -> list[float]:
        """The time of each unit of work: `units=N` of them, or for `seconds=S`."""
        return self._ask(request)["seconds"]

    def answer(self, texts):
        """(seconds, vectors) of a request of strings."""
        answer = self._ask({"texts": texts})
        return answer["seconds"], answer["vectors"]

    def close(self):
        """Ends the process."""
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait()
            self._process.stdout.close()
            self._process = None

    def _ask(self, request):
        if self._process is None:
            allocator = next(env for name, env in _ALLOCATORS.items() if self.job["setting"].endswith(name))
            command = [sys.executable, str(_WORKER), json.dumps(self.job)]
            inherited = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
            self._process = subprocess.Popen(
                command, env=inherited | allocator, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RuntimeError(
                f"transformers on torch, {self.job['setting']}: its process ended with status {self._process.wait()}."
            )
        return json.loads(line)


def torch_settings(precision) -> list[str]:
    """The settings of torch in the precision of a Keras policy; none where torch or transformers is not installed."""
    if not all(importlib.util.find_spec(name) for name in ("torch", "transformers")):
        _LOGGER.info("transformers on torch is not installed: pip install torch transformers")
        return []
    return [f"{kind}, {allocator}" for kind in _PRECISIONS[precision] for allocator in reversed(_ALLOCATORS)]


def torch_config(config) -> dict:
    """The arguments of transformers.BertConfig for a `BertConfig`."""
    return {
        "vocab_size": config.vocabulary_size,
        "hidden_size": config.hidden_dim,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.intermediate_dim,
    }
