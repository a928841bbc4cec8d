"""The directory of a fine-tuning: what it stores, and the result of a finished run."""

import logging
import math
import pathlib
from collections.abc import Sequence
from typing import Any

from kbert.aliases import ModelSource
from kbert.errors import internal_errors
from kbert.files import read_json
from kbert.finetuning.example_sets import ExampleSets
from kbert.inspection.board.tensor_board import TensorBoard
from kbert.models.bert_model import BertModel
from kbert.models.lora import lora_layers
from kbert.pipelines.pipeline import Pipeline
from kbert.tasks.examples import Examples
from kbert.tasks.task import Evaluation, Task
from kbert.training.hardware import Hardware
from kbert.training.logs import is_chief
from kbert.training.made_by import note_origin
from kbert.training.run_directory import RunDirectory
from kbert.training.run_log import HISTORY, read_history, training_minutes
from kbert.weights.adapter import save_adapter
from kbert.weights.build_pipeline import build_pipeline
from kbert.weights.load import load_pretrained
from kbert.weights.provenance import trained_columns
from kbert.weights.report import log_dropout
from kbert.weights.save import resolve_parts, save_pretrained
from kbert.weights.step_checkpoint import write_description
from kbert.weights.step_paths import CHECKPOINTS, METRICS

_LOGGER = logging.getLogger("kbert")
RECIPE = "kbert.finetune"


def describe_checkpoints(run: RunDirectory, pipeline: Pipeline) -> None:
    """Writes what the checkpoints of a run need beside them to be loaded as models."""
    if run.path is not None and run.is_chief:
        model, tokenizer, settings = resolve_parts(pipeline)
        write_description(run.path / CHECKPOINTS, model, settings, tokenizer.vocabulary)


def log_plan(
    hardware: Hardware,
    model: BertModel,
    source: ModelSource,
    dropout: float | None,
    sets: ExampleSets,
    all_examples: Examples,
    windows: int,
    steps: int,
) -> None:
    """Logs what is about to be trained, on what, and where; `all_examples` include texts without labels."""
    _LOGGER.info(hardware.describe())
    in_windows = f" in {windows:,} windows" if windows != len(sets.train) else ""
    evaluated = f", {len(sets.dev['']):,} to evaluate on" if sets.dev else ""
    if len(all_examples) > len(sets.train):
        _LOGGER.info("the teacher labels %s texts without labels", f"{len(all_examples) - len(sets.train):,}")
    _LOGGER.info("%s examples%s to learn from%s; %s steps", f"{len(sets.train):,}", in_windows, evaluated, f"{steps:,}")
    trained = sum(math.prod(weight.shape) for weight in model.trainable_weights)
    every = model.count_params()
    if trained < every:
        why = "LoRA and the head" if lora_layers(model) else "the rest are frozen in the source"
        _LOGGER.info("training %s of %s parameters (%s)", f"{trained:,}", f"{every:,}", why)
    log_dropout(model.config, source, dropout)
    if not sets.dev:
        _LOGGER.info("no dev set: skipping evaluation and keeping the final weights")


def describe_run(
    task: Task, sets: ExampleSets, all_examples: Examples, windows: int, steps: int, records: Sequence[dict]
) -> dict[str, Any]:
    """What metrics.json contains besides the scores."""
    speeds = [record["real_tokens_per_second"] for record in records if "real_tokens_per_second" in record]
    return {
        "task": task.to_dict(),  # with what the training examples decided
        "train_examples": len(sets.train),
        "unlabelled_examples": len(all_examples) - len(sets.train),
        "train_windows": windows,
        "dev_examples": len(sets.dev[""]) if sets.dev else 0,
        "steps": steps,
        "minutes": training_minutes(records),
        "real_tokens_per_second": sum(speeds) / len(speeds) if speeds else None,
    }


@internal_errors()
def finish_run(
    run: RunDirectory,
    board: TensorBoard | None,
    pipeline: Pipeline,
    result: Evaluation | None,
    metrics: dict[str, Any],
    records: Sequence[dict],
) -> None:
    """Writes the final scores, the model, LoRA's adapter, the official prediction files and metrics.json.

    The model in memory knows its origin then, and the pipeline the columns of its texts.
    """
    model: BertModel = pipeline.model

    def save(path: pathlib.Path, made_by: dict) -> None:
        save_pretrained(pipeline, path, made_by=made_by, overwrite=True)
        if lora_layers(model):
            try:
                save_adapter(model, run.path / "adapter")
            except ValueError as error:  # PEFT has no such head or LoRA; the stored model has it merged
                _LOGGER.warning("no adapter was written: %s", error)
        if result is not None and result.write is not None:
            result.write(run.path)

    if board is not None and is_chief(model):
        scores = result.scores if result is not None else records[-1] if records else {}
        board.finish({**scores, "minutes": metrics["minutes"]}, metrics.get("kept_step", metrics["steps"]))
    run.finish(metrics, save)
    note_origin(model, run, metrics)
    pipeline.trained_columns = trained_columns(model)


def read_finished(run: RunDirectory) -> tuple[dict[str, Any], list[dict], Pipeline]:
    """The metrics, the history and the model of a finished run."""
    pipeline = build_pipeline(load_pretrained(run.path))
    return read_json(run.path / METRICS), read_history(run.path / HISTORY), pipeline
