"""Commands that look into a model, or convert it."""

import dataclasses
import importlib.util
import pathlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import kbert
from kbert.aliases import PathLike
from kbert.checks import Bounds
from kbert.cli import Command
from kbert.commands.predicting import drop_none
from kbert.errors import MissingPackage
from kbert.options import Count, Natural, Precision, checked

Port = Annotated[int, Bounds("[0, 65535]")]


@checked
def convert(
    source: PathLike,
    output: PathLike,
    *,
    format: Literal["huggingface", "google", "kerashub"] = "huggingface",
    task: str | None = None,
    vocabulary: PathLike | None = None,
    lowercase: bool | None = None,
    storage_dtype: Literal["float32", "bfloat16", "float16"] | None = None,
    report: PathLike | None = None,
    overwrite: bool = False,
) -> list[str]:
    """Converts a BERT checkpoint from one library's format to another's, including heads.

    A model that a format cannot store is an error that states the reason. Weights are never changed, except by
    `storage_dtype`.

    Args:
        source: a Hugging Face directory or the output of a run; the directory or prefix of Google's TensorFlow
            checkpoint; a name on the Hugging Face hub; or a KerasHub preset, by its directory or name, which keras_hub
            opens. The format is recognized.
        output: directory to write, which must be new or empty.
        format: format to write.
        task: task of the model to write. Defaults to the checkpoint's own.
        vocabulary: a vocab.txt, for a checkpoint without one or with a wrong one.
        lowercase: whether the tokenizer lower-cases; None: as stored in the checkpoint.
        storage_dtype: type of the weights on disk, with the format huggingface. They are float32 when loaded.
        report: a JSON file to write, with every variable's name in both formats.
        overwrite: replace what an earlier conversion wrote to `output`.

    Returns:
        What was written, in lines.
    """
    from kbert.files import write_json
    from kbert.weights.keras_hub_bridge import names_preset, write_preset

    def load(path, **overrides):
        read = kbert.weights.from_keras_hub if names_preset(path) else kbert.load_pretrained
        return read(path, **overrides)

    if format == "kerashub" and storage_dtype is not None:
        raise ValueError("convert: only format=\"huggingface\" takes a `storage_dtype`. Received: 'kerashub'")
    model = load(source, task=task, **drop_none(lowercase=lowercase, vocabulary=vocabulary))
    if new := [row.variable for row in model.pretrained.report.newly_initialised]:
        raise ValueError(f"{source} has no weights for {new}, and a conversion adds none: choose another `task`")
    if format == "kerashub":
        write_preset(model, output, overwrite=overwrite)
    else:
        kbert.save_pretrained(model, output, format=format, overwrite=overwrite, storage_dtype=storage_dtype)
    lines = [f"Wrote {output}: a {model.task} model in the format {format}."]
    if report is not None:
        report = pathlib.Path(report)
        report.parent.mkdir(parents=True, exist_ok=True)
        reports = {"read": model.pretrained.report, "written": load(output).pretrained.report}
        write_json(report, {side: dataclasses.asdict(of_side) for side, of_side in reports.items()})
        lines += [*model.pretrained.report.table(), f"Wrote {report}."]
    return lines


@checked
def inspect(
    source: PathLike,
    *,
    texts: Sequence[str] = (),
    data: PathLike | None = None,
    dev: PathLike | None = None,
    columns: dict[str, int] | None = None,
    text_column: str = "text",
    label_column: str = "label",
    max_words: Count = 5000,
    compare: PathLike | None = None,
    corpus: list[str] | None = None,
    records: PathLike | None = None,
    output: PathLike | None = None,
    log_dir: PathLike | None = None,
    sequence_length: Count | None = None,
    seed: Natural = 0,
    precision: Precision = "auto",
    overwrite: bool = False,
) -> dict[str, Any]:
    """Looks inside a model: attention, head statistics, layer probes, embeddings, and which tokens decided an answer.

    Args:
        source: the model, of any task.
        texts: texts to look at; none: two sentences.
        data: labelled words or texts for linear probes of each layer: a table with the columns `text_column` and
            `label_column`, or words in columns as in CoNLL's files.
        dev: the same to score the probes on; None: a fifth of `data`.
        columns: names and numbers of the columns of labels, from 0 or from the end: tags are entities, heads are
            syntactic heads, and any other name is a property of words; none: the last column, tags.
        text_column, label_column: of a table.
        max_words: the maximum number of words or texts to read from a file.
        compare: another model, such as the one before fine-tuning, to whose layers those of this one are compared.
        corpus, records: text files, or records, whose most frequent tokens the projector shows.
        output: directory for report.html and figures.json.
        log_dir: directory of TensorBoard logs, to which the run "inspection" is added, with the projector.
        sequence_length: tokens of a text.
        seed: determines the labels of the control tasks.
        precision: of the arithmetic.
        overwrite: replace an inspection in `output`.

    Returns:
        dict: ``inspection``, the result of `kbert.inspect`; ``output``, ``log_dir``.
    """
    from kbert.pretraining.dataset_statistics import token_counts
    from kbert.tasks.tagging.readers import read_labelled_columns
    from kbert.training.hardware import choose_hardware

    if output is None and log_dir is None:
        raise ValueError("inspect: expected `log_dir`, `output` or both. Received: neither")
    columns = dict(columns or {"tags": -1})
    probes = [
        path and read_labelled_columns(pathlib.Path(path), columns, text=text_column, label=label_column)
        for path in (data, dev)
    ]
    with choose_hardware("one", precision).scope():
        model = kbert.load_pretrained(source)
        counted = records or corpus
        inspection = kbert.inspect(
            model,
            list(texts) or None,
            probes[0],
            dev=probes[1],
            counts=token_counts(counted, model.pretrained.tokenizer) if counted else None,
            directory=output,
            name=str(source),
            overwrite=overwrite,
            max_words=max_words,
            seed=seed,
            **drop_none(log_dir=log_dir, sequence_length=sequence_length, compare=compare),
        )
    return {"inspection": inspection, "output": output, "log_dir": log_dir}


def report_inspection(result: Mapping[str, Any]) -> None:
    """Prints the best layer of each probe, and where to look."""
    for name, probes in result["inspection"].probes.items():
        best = probes.best_layer
        print(f"{name}: {probes.accuracy[best]:.1%} at layer {best}, selectivity {probes.selectivity[best]:.1%}")
    if result["output"] is not None:
        print(f"Wrote {result['output']}/report.html.")
    if result["log_dir"] is not None:
        print(f"To view it, run: tensorboard --logdir {result['log_dir']}")


@checked
def playground(models: Sequence[str], *, host: str = "127.0.0.1", port: Port = 6007, share: bool = False) -> None:
    """Serves the playground: masking, next sentences, input rows, attention and answers of models, in a browser.

    Args:
        models: models to show, such as saved_models/kbert-tiny.
        host: address to listen on. The default is reachable from this machine only.
        port: port to listen on. 0 takes the first free one from 7860 on.
        share: opens a public link through Gradio's servers. Everyone who knows it can query the models.
    """
    from kbert.training.hardware import processor_only

    processor_only()  # a training beside this may need the accelerator
    from kbert.inspection.playground.models import named_models

    named = named_models(models)
    if importlib.util.find_spec("gradio") is None:
        message = 'The playground needs gradio: pip install "gradio>=6.31,<7", which the extra `playground` installs'
        raise MissingPackage(message, name="gradio")
    from kbert.inspection.playground.app import serve

    page = serve(named, host, port, share)
    print(f"The playground is at {page.share_url or page.local_url} until you press Ctrl-C.", flush=True)
    page.block_thread()


COMMANDS = {
    "convert": Command(
        verb=convert,
        report=lambda lines: print("\n".join(lines)),
        epilog="kbert convert --source uncased_L-12_H-768_A-12 --format huggingface --output bert-base",
    ),
    "inspect": Command(verb=inspect, report=report_inspection),
    "playground": Command(verb=playground, positional=("models",)),
}
