"""One fine-tuning: a model, a task, examples and the paper's settings, checked before the first step."""

import dataclasses
import logging
import pathlib
from collections.abc import Sequence
from typing import Any

import keras

from kbert.finetuning.dev_scores import DevScores
from kbert.finetuning.finetuned_run import FinetunedRun
from kbert.finetuning.finetuning_options import FinetuningOptions
from kbert.finetuning.identify import identify_model
from kbert.finetuning.starting_pipeline import starting_pipeline
from kbert.inspection.board.log_directory import log_directory
from kbert.inspection.board.tensor_board import TensorBoard
from kbert.inspection.examples.dev_examples import DevExamples
from kbert.keras_compat import set_untracked
from kbert.models.bert_model import BertModel
from kbert.models.copy_model import copy_model
from kbert.models.lora import lora_layers
from kbert.models.quantized_layers import check_not_quantized
from kbert.optim.adamw import AdamW
from kbert.optim.schedule import WarmupLinearDecay
from kbert.pipelines.pipeline import Pipeline
from kbert.tasks.in_memory import has_splits
from kbert.tasks.task import Task
from kbert.text.tokenizer import share_of_unknown, warn_of_unknown
from kbert.training.accumulation import check_accumulation
from kbert.training.callbacks import ConsoleProgress, callback_list
from kbert.training.dev_evaluation import DevEvaluation, evaluation_steps
from kbert.training.dry_run import estimate_training
from kbert.training.evaluation_epochs import EvaluationEpochs
from kbert.training.hardware import choose_hardware
from kbert.training.history import training_minutes
from kbert.training.intervals import log_interval, log_interval_for, training_steps
from kbert.training.made_by import note_origin
from kbert.training.resume import fit_steps
from kbert.training.run_directory import open_run
from kbert.weights.build_pipeline import build_pipeline
from kbert.weights.origin import trained_columns
from kbert.weights.save import resolve_parts, save_pretrained
from kbert.weights.source import check_source, local_source
from kbert.weights.step_checkpoint import write_description
from kbert.weights.step_paths import CHECKPOINTS

_LOGGER = logging.getLogger("kbert")
_FIRST = 200  # examples, whose share of [UNK] is looked at
_LOG_EVERY = 50  # steps, about: a divisor of checkpoint_every


class Finetuning:
    """A fine-tuning that is ready to start: everything is read, built and checked, and nothing is written yet.

    `kbert.finetune` makes one and runs it. Programs that have to distinguish errors in a user's files from errors in
    training, or that need an estimate first, use it directly.

    Args:
        source, task, train, dev, output, log_dir, profile, overwrite, callbacks: see `kbert.finetune`.
        more_dev: {suffix: examples}, scored at the end in addition to `dev`; their metrics have this suffix.
        recipe: str, the program that the manifest of the model names.
        more_settings: dict of further settings that define the run, for settings.json.
        **options: fields of `FinetuningOptions`.

    Attributes:
        task, train, dev: as completed: labels as numbers, without examples that cannot be learned.
        pipeline: `kbert.Pipeline`, before its training.

    Raises:
        FileNotFoundError, ValueError, RuntimeError: as `kbert.finetune`.
    """

    def __init__(
        self,
        source,
        task: Task,
        train,
        dev=None,
        output=None,
        *,
        more_dev=None,
        log_dir=None,
        profile=None,
        overwrite: bool = False,
        callbacks: Sequence | keras.callbacks.Callback = (),
        recipe: str = "kbert.finetune",
        more_settings=None,
        **options,
    ):
        if not isinstance(task, Task):
            raise TypeError(
                "finetune: expected `task` as a task object, such as kbert.tasks.Classification(text=..., label=...). "
                f"Received: {task!r}"
            )
        if not isinstance(source, BertModel | Pipeline):
            check_source("finetune: `source`", source, "a kbert model", "a kbert.Pipeline")
        self.options = FinetuningOptions(**options)
        if dev is None and has_splits(train) and "validation" in train:
            dev = train
        if dev is None:
            self._check_without_dev(more_dev)
        self.log_dir = log_directory("finetune", log_dir, output, profile)
        self.output = None if output is None else pathlib.Path(output)
        self.callbacks = callback_list("finetune", callbacks, has_own_rate=True)
        self.overwrite, self.recipe, self.profile = overwrite, recipe, profile
        self._source, self._more_settings = source, more_settings or {}
        self._given, train = task, task.examples(train)
        self.task, self.train = task.for_training(train)
        self.dev = None if dev is None else self.task.examples(dev, dev=True)
        self._examples = {"train": train, "dev": self.dev}  # as given
        more_dev = {suffix: self.task.examples(examples, dev=True) for suffix, examples in (more_dev or {}).items()}
        machine = {name: getattr(self.options, name) for name in ("strategy", "precision", "xla", "logical_cpus")}
        self.hardware = choose_hardware(**machine, source=source)
        check_accumulation(self.options.accumulate, self.hardware, [self.options.batch_size])
        settings = self.task.settings(self.train)
        if self.dev is not None:
            self.task.check_dev(self.dev, settings)
            self.dev = self.task.for_model(self.dev, settings)
        self.more_dev = {suffix: self.task.for_model(one, settings) for suffix, one in more_dev.items()}
        keras.utils.set_random_seed(self.options.seed)
        with self.hardware.scope():
            self.pipeline = starting_pipeline(source, self.task, settings, self.options)
        check_not_quantized(self.pipeline.model)
        if self.options.lora_rank and lora_layers(self.pipeline.model):
            raise ValueError("finetune: `lora_rank` needs a model without LoRA. Call its `merge_lora()` first.")
        self._init = identify_model(source)  # now: a model that is given is trained itself
        settings = self.pipeline.settings()  # with labels in the order of a head that is trained further
        self.train = self.task.for_model(self.train, settings)
        self.dev = None if self.dev is None else self.task.for_model(self.dev, settings)
        self.more_dev = {suffix: self.task.for_model(one, settings) for suffix, one in self.more_dev.items()}
        if self.options.class_weight is not None:
            self.task.check_class_weight(self.options.class_weight, self.pipeline, self.train)
        head = self.train.take(range(min(len(self.train), _FIRST)))
        share = share_of_unknown(self.pipeline.tokenizer, head.columns.values())
        warn_of_unknown(share, self.train.path or "the training examples")
        size, static = self.options.batch_size, self.hardware.name == "tpu"
        self._scores = DevScores(self.task, self.pipeline, self.train, self.dev, self.more_dev, size, static)
        self._run = None

    def _check_without_dev(self, more_dev):
        """Raises ValueError for what only evaluations on `dev` use."""
        every = None if self.options.evaluate_every == "epoch" else self.options.evaluate_every  # the default
        needs = {"more_dev": list(more_dev or ()), "patience": self.options.patience, "evaluate_every": every}
        for name, value in needs.items():
            if value:
                raise ValueError(f"finetune: `{name}` needs `dev`. Received: {name}={value!r} and dev=None")

    def settings(self) -> dict[str, Any]:
        """The settings that define the run, as in settings.json."""
        named = {"init": self._init} | {name: one and one.path for name, one in self._examples.items()}
        return named | self._given.to_dict() | self.options.to_dict() | self._more_settings

    def open(self):
        """Opens the output directory by the rule of `open_run`; `run` does this if it was not done before."""
        if self._run is None and self.output is not None:
            files = {name: one.path for name, one in self._examples.items() if one is not None and one.path}
            if files.get("dev") == files.get("train"):
                files.pop("dev", None)  # held out of it
            files["more_dev"] = [one.path for one in self.more_dev.values() if one.path] or None
            if not isinstance(self._source, BertModel | Pipeline):
                files["init"] = local_source(self._source) or self._source
            examples = {name: one.fingerprint() for name, one in self._examples.items() if one is not None}
            self._run = open_run(
                self.output,
                self.settings(),
                self.overwrite,
                self.hardware,
                inputs=files,
                recipe=self.recipe,
                examples=examples,
            )
        return self._run

    def estimate(self) -> dict[str, Any]:
        """Estimates the training on a copy of the model, with its numbers of examples and windows.

        Returns:
            dict of ``examples`` and ``windows``, and the result of `kbert.training.dry_run.estimate_training`.
        """
        data = self._training_data()
        with self.hardware.scope():
            model = copy_model(self.pipeline.model)
        self._compile(model, steps := self._steps(data))
        estimate = estimate_training(model, data.make_dataset(), steps)
        return {"examples": len(self.train), "windows": data.windows} | estimate

    def run(self) -> FinetunedRun:
        """Trains, evaluates and saves; an unfinished run in the output is resumed."""
        run = self.open()
        _LOGGER.info(self.hardware.describe())
        data = self._training_data()
        steps, model = self._steps(data), self.pipeline.model
        windows = f" in {data.windows:,} windows" if data.windows != len(self.train) else ""
        evaluated = f", {len(self.dev):,} to evaluate on" if self.dev is not None else ""
        _LOGGER.info(
            "%s examples%s to learn from%s; %s steps", f"{len(self.train):,}", windows, evaluated, f"{steps:,}"
        )
        if self.dev is None:
            _LOGGER.info("no dev set: nothing is evaluated, and the weights of the last step are kept")
        self._compile(model, steps)
        if run is not None and run.is_chief:
            _, tokenizer, settings = resolve_parts(self.pipeline)
            settings = dataclasses.replace(settings, task=model.task)
            write_description(run.path / CHECKPOINTS, model, settings, tokenizer.vocabulary)
        evaluation, window = self._evaluation(data, steps)
        board = self._board(data) if self.log_dir else []
        history = fit_steps(
            model,
            data.make_dataset,
            steps,
            self.output,
            window=window,
            checkpoint_every=self.options.checkpoint_every // window,
            callbacks=[
                *self._callers_callbacks(evaluation),
                ConsoleProgress(),
                *board,
                *([DevExamples(evaluation, self.log_dir)] if self.log_dir and evaluation else ()),
            ],
            real_tokens=self.options.batch_size * data.real_tokens,
            evaluation=evaluation,
        )
        done = history[-1]["step"] if history else steps  # a callback or `patience` may stop a run
        result, metrics = (None, {}) if evaluation is None else self._scores.of_kept_weights(evaluation)
        speeds = [record["real_tokens_per_second"] for record in history if "real_tokens_per_second" in record]
        metrics |= {
            "task": self.task.to_dict(),  # with what the training examples decided
            "train_examples": len(self.train),
            "train_windows": data.windows,
            "dev_examples": 0 if self.dev is None else len(self.dev),
            "steps": done,
            "minutes": training_minutes(history),
            "real_tokens_per_second": sum(speeds) / len(speeds) if speeds else None,
        }
        if board and self.hardware.is_chief:
            scores, step = (history[-1], done) if result is None else (result.scores, evaluation.kept_step)
            board[0].finish(scores | {"minutes": metrics["minutes"]}, step)
        if result is not None and result.settings:
            self.pipeline = build_pipeline(model, self.pipeline.tokenizer, **self.pipeline.options() | result.settings)
        if run is not None:
            self._save(run, result, metrics)
        note_origin(model, run, metrics, self.recipe, self.settings(), ("init", *self._examples))
        set_untracked(self.pipeline, "trained_columns", trained_columns(model))
        return FinetunedRun(metrics, history, self.pipeline, self.output)

    def _board(self, data):
        model = self.pipeline.model
        about = self.settings() | model.config.to_dict() | {"parameters": model.count_params()}
        return [
            TensorBoard(
                self.log_dir,
                settings=about,
                baseline={} if self.dev is None else self._scores.constant_answer(),
                batch=lambda: next(iter(data.make_dataset())),
                profile=self.profile,
                wait_for_finish=True,
            )
        ]

    def _compile(self, model, steps):
        given = self.options
        schedule = WarmupLinearDecay(given.learning_rate, int(given.warmup_share * steps), steps)
        options = {name: getattr(given, name) for name in ("weight_decay", "bias_correction", "layer_decay")}
        with self.hardware.scope():
            if given.lora_rank:  # not before: a model that is given stays as it is until its training begins
                keras.utils.set_random_seed(given.seed)
                model.enable_lora(given.lora_rank)
            model.compile(
                AdamW(schedule, **options),
                micro_batches=self.options.accumulate,
                jit_compile=self.hardware.jit_compile,
            )

    def _training_data(self):
        padding = "full" if self.hardware.name == "tpu" else "bucket" if self.hardware.jit_compile else "longest"
        weights = {} if self.options.class_weight is None else {"class_weight": self.options.class_weight}
        return self.task.training_data(
            self.pipeline,
            self.train,
            **weights,
            batch_size=self.options.batch_size,
            seed=self.options.seed,
            padding=padding,
            group_by_length=self.options.group_by_length,
        )

    def _steps(self, data):
        return self.options.steps or training_steps(data.rows, self.options.batch_size, self.options.epochs)

    def _evaluation(self, data, steps):
        """The `DevEvaluation`, None without a dev set; and steps of a window of logs, with one evaluation at most."""
        options = self.options
        if self.dev is None:
            return None, log_interval(options.checkpoint_every, _LOG_EVERY)
        at = evaluation_steps(steps, options.evaluate_every, data.rows / options.batch_size)
        metric, keep = self.task.metrics[0], {"keep": options.keep, "patience": options.patience}
        keep["lower_is_better"] = metric in self.task.lower_is_better
        evaluation = DevEvaluation(self._scores.evaluate, at, metric, self.output, **keep)
        return evaluation, log_interval_for(at, options.checkpoint_every, _LOG_EVERY)

    def _callers_callbacks(self, evaluation):
        if evaluation is None or not self.callbacks:
            return self.callbacks
        modes = {name: "min" if name in self.task.lower_is_better else "max" for name in self.task.metrics}
        return [EvaluationEpochs(self.callbacks, evaluation, modes)]

    def _save(self, run, result, metrics):
        def save(path, made_by):
            save_pretrained(self.pipeline, path, made_by=made_by, overwrite=True)
            if self.options.lora_rank:
                self.pipeline.model.save_adapter(run.path / "adapter.npz")
            if result is not None and result.write is not None:
                result.write(run.path)

        run.finish(metrics, save)
