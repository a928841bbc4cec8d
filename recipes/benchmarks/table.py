"""One benchmark by its name, and the table of docs/performance.md, whose rows are processes of their own."""

import datetime
import importlib
import json
import logging
import subprocess

from experiments.processor_name import processor_name

from kbert.versions import versions

_LOGGER = logging.getLogger("kbert")
_PACKAGES = ("keras", "tensorflow", "keras-hub", "torch", "transformers")
_MODELS = [
    (part, size, rows, precision)
    for part in ("train", "encode")
    for size, rows in (("mini", 32), ("base", 8))
    for precision in ("float32", "mixed_bfloat16")
]


def measure_table(command, settings) -> dict:
    """Measures the models of the table, and serving if there is a `settings.model`.

    Args:
        command: list of strings, the program that runs one benchmark: ``[python, recipes/benchmark.py]``.
        settings: `BenchmarkSettings`: seconds, rounds, peers and model apply to every row, frozen weights to serving.

    Returns:
        dict of ``rows`` (the results of the benchmarks), ``versions``, ``date``, ``processor`` and ``cores``.
    """
    common = ["--seconds", str(settings.seconds), "--rounds", str(settings.rounds), "--json"]
    common += ["--peers"] if settings.peers else []
    rows = []
    for part, size, batch, precision in _MODELS:
        rows.append(
            _run([*command, part, "--size", size, "--batch-size", str(batch), "--precision", precision, *common])
        )
    for precision in ("float32", "mixed_bfloat16") if settings.model else ():
        serve = ["serve", "--model", str(settings.model), "--sequence-length", "256", "--precision", precision]
        frozen = ["--frozen-weights"] if settings.frozen_weights else []
        rows.append(_run([*command, *serve, *frozen, *common]))
    processor, cores = processor_name()
    date = datetime.date.today().isoformat()
    return {"rows": rows, "versions": versions(_PACKAGES), "date": date, "processor": processor, "cores": cores}


def table_lines(table) -> list[str]:
    """The results of `measure_table` as lines of Markdown."""
    about = ", ".join(f"{name} {version}" for name, version in table["versions"].items())
    lines = [
        f"{table['date']}, {table['cores']} cores of {table['processor']}; {about}.",
        "",
        "| work | kbert | of the matmul peak | of its own products | peers, at their best setting | kbert is |",
        "|---|---|---|---|---|---|",
    ]
    return lines + [_serving_line(row) if row["part"] == "serve" else _model_line(row) for row in table["rows"]]


def result_lines(result) -> list[str]:
    """The result of one benchmark, a line for each of its figures."""
    lines = []
    for name, value in result.items():
        if name.endswith("operations"):
            lines.append(name)
            for kind, one in value.items():
                lines.append(f"  {kind:28s} {one['milliseconds']:,.4g} ms in {one['number']:,.4g} calls")
        else:
            lines.append(f"{name:30s} {value:,.4g}" if isinstance(value, float) else f"{name:30s} {value}")
    return lines


def peer_lines(result) -> list[str]:
    """The speeds of other libraries in the result of one benchmark, and how they compare."""
    peers = result.get("peers", {})
    chosen = result.get("peer_settings", {})
    return [
        f"{name:28s} {speed:14,.0f} tokens/s   kbert is {result['tokens_per_second'] / speed:.2f} times as fast   "
        f"{chosen.get(name, '')}"
        for name, speed in peers.items()
    ]


def _model_line(row):
    ours = row["tokens_per_second"]
    peers = row.get("peers", {})
    own = row.get("peer_settings", {}).get("kbert")
    cells = (
        f"{row['part']} {row['size']}, {row['batch_size']} × {row['sequence_length']}, {row['precision']}",
        f"{ours:,.0f} tokens/s" + (f" ({own})" if own else ""),
        f"{row['fraction_of_matmul_peak']:.0%} of {row['matmul_peak_gflops_per_second']:,.0f} GFLOP/s",
        f"{row['fraction_of_model_matmul']:.0%} of {row['model_matmul_gflops_per_second']:,.0f} GFLOP/s",
        "; ".join(f"{name} ({row['peer_settings'][name]}) {rate:,.0f}" for name, rate in peers.items()),
        "; ".join(f"{ours / rate:.2f} times as fast" for rate in peers.values()),
    )
    return f"| {' | '.join(cells)} |"


def _serving_line(row):
    def figures(of):
        short = of["short_p50_ms"]
        long = of["long_p50_ms"]
        mixed = of["mixed_texts_per_second"]
        return f"{short:.1f} ms short, {long:.1f} ms long, {mixed:.0f} texts/s"

    peers = row.get("transformers", {})
    cells = (
        f"serve {row['model']}, {row['precision']}" + ", frozen weights" * row["frozen_weights"],
        figures(row),
        "",
        "",
        "; ".join(f"transformers on torch ({name}) {figures(one)}" for name, one in peers.items()),
        ", ".join(f"{ratio:.2f} times as fast ({name})" for name, ratio in row.get("ratios", {}).items()),
    )
    return f"| {' | '.join(cells)} |"


def _run(command):
    _LOGGER.info("%s", " ".join(command[1:]))
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stdout}")
    return json.loads(done.stdout.splitlines()[-1])


_FUNCTIONS = {  # name → module of benchmarks, function
    "tokenize": ("text", "tokenize"),
    "input": ("text", "pretraining_input"),
    "rows": ("text", "rows"),
    "feed": ("training", "feed"),
    "fit": ("training", "fit"),
    "peak": ("peak", "peak"),
    "train": ("training", "train"),
    "board": ("training", "board"),
    "encode": ("encoding", "encode"),
    "serve": ("serving", "serve"),
    "operations": ("encoding", "operations"),
}
PARTS = tuple(_FUNCTIONS)


def measure(part: str, settings) -> dict:
    """What one benchmark gives, with its name and the most memory that this process has had."""
    from kbert.training.flops import peak_memory_bytes

    module, function = _FUNCTIONS[part]
    result = getattr(importlib.import_module(f"benchmarks.{module}"), function)(settings)
    return {"part": part, **result, "peak_memory_mib": round(peak_memory_bytes() / 2**20)}
