"""Peers of a model benchmark, each in its fastest setting: the race, and torch in a process of its own."""

import contextlib
import importlib.util
import json
import logging
import os
import pathlib
import statistics
import subprocess
import sys
import time

_LOGGER = logging.getLogger("kbert")


def race(runners, seconds, rounds):
    """Runs each system for `seconds`, one after the other, `rounds` times.

    Returns:
        name → (nominal tokens/s, real tokens/s), the medians over all units of work. A first call of each system
        (tracing, compilation, allocation) is not counted.
    """
    rates = {name: [] for name in runners}
    for name, run in runners.items():
        _LOGGER.info("warming up %s", name)
        run(0.0)
    for number in range(rounds):
        for name, run in runners.items():
            rates[name] += run(seconds)
            _LOGGER.info(
                "round %d/%d  %-28s %14.0f tokens/s", number + 1, rounds, name, statistics.median(column(rates[name]))
            )
    return {name: tuple(statistics.median(column(samples, i)) for i in (0, 1)) for name, samples in rates.items()}


def fastest_setting(name, runners, seconds):
    """The setting in which a system is fastest, after a trial of each of them."""
    speeds = {}
    for setting, run in runners.items() if len(runners) > 1 else ():
        run(0.0)
        speeds[setting] = statistics.median(column(run(seconds)))
        _LOGGER.info("trial  %s, %s: %.0f tokens/s", name, setting, speeds[setting])
    return max(speeds, key=speeds.get) if speeds else next(iter(runners))


def with_and_without_xla(runner):
    """The settings of a system that XLA may compile, for `fastest_setting`; `runner`: function of `jit_compile`."""
    return {f"XLA {'on' if jit else 'off'}": runner(jit) for jit in (False, True)}


def timed(work):
    """A runner of a function that does one unit of work and returns (nominal tokens, real tokens)."""

    def run(seconds):
        rates = []
        start = now = time.perf_counter()
        while not rates or now - start < seconds:
            nominal, real = work()
            before, now = now, time.perf_counter()
            rates.append((nominal / (now - before), real / (now - before)))
        return rates

    return run


def column(samples, index=0):
    """One of the two rates of each unit of work."""
    return [sample[index] for sample in samples]


def summary(rates):
    """The common fields of results: kbert's rates, and the nominal rate of each other system."""
    peers = {name: nominal for name, (nominal, _) in rates.items() if name != "kbert"}
    nominal, real = rates["kbert"]
    return {"tokens_per_second": nominal, "real_tokens_per_second": real} | ({"peers": peers} if peers else {})


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


@contextlib.contextmanager
def fastest_peers(work, settings, config, hub_name, hub_runners, torch_runner):
    """Context of ({name: runner}, {name: setting}): keras-hub and torch, each in its fastest setting.

    Args:
        work: "train" or "encode".
        settings: `BenchmarkSettings`; without `peers` there are none.
        hub_name: str, the class of keras-hub.
        hub_runners: function without arguments → {setting: runner (`benchmarks.peers`)}.
        torch_runner: function of a `TorchPeer` → runner.
    """
    runners = {}
    chosen = {}
    processes = []
    if not settings.peers:
        yield runners, chosen
        return
    sizes = {name: getattr(settings, name) for name in ("batch_size", "sequence_length", "max_predictions")}
    try:
        hub = hub_runners()
        chosen[hub_name] = fastest_setting(hub_name, hub, settings.seconds)
        runners[hub_name] = hub[chosen[hub_name]]
        ways = torch_settings(settings.precision)
        for name, torch_work in WORKS[work].items() if ways else ():
            torch = {way: TorchPeer(torch_work, way, config=torch_config(config), **sizes) for way in ways}
            processes += torch.values()
            chosen[name] = fastest_setting(
                name, {way: torch_runner(peer) for way, peer in torch.items()}, settings.seconds
            )
            runners[name] = torch_runner(torch[chosen[name]])
            for way, peer in torch.items():
                if way != chosen[name]:
                    peer.close()
        yield runners, chosen
    finally:
        for process in processes:
            process.close()


def hub_backbone(config, dtype=None):
    """The encoder of keras-hub for a `BertConfig`."""
    import keras_hub

    return keras_hub.models.BertBackbone(
        vocabulary_size=config.vocabulary_size,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        hidden_dim=config.hidden_dim,
        intermediate_dim=config.intermediate_dim,
        dtype=dtype,
    )
