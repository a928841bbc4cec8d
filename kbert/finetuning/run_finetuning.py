"""What `kbert.finetune` does, in the order in which it happens: read, build, open the run, train, evaluate, save."""

import functools
import logging
import math
import os
import pathlib
from typing import Any

from kbert.files import read_json
from kbert.finetuning.finetune import FinetunedRun
from kbert.finetuning.run import Run
from kbert.finetuning.starting_pipeline import starting_pipeline
from kbert.finetuning.teaching import Teaching, distillation_losses, hash_of_texts
from kbert.inspection.board.tensor_board import log_directory
from kbert.inspection.examples.dev_examples import DevExamples
from kbert.keras_compat import seeded
from kbert.models.bert_model import BertModel
from kbert.models.copies import copy_model
from kbert.models.lora import lora_layers
from kbert.models.quantized_layers import check_not_quantized
from kbert.models.trainability import trainability
from kbert.optim.make_optimizer import make_optimizer
from kbert.optim.schedule import WarmupLinearDecay
from kbert.options import Arguments, to_json
from kbert.pipelines.pipeline import Pipeline
from kbert.tasks.examples import Examples
from kbert.tasks.in_memory import has_splits
from kbert.tasks.task import Evaluation, Task, TrainingData
from kbert.text.tokenizer import unknown_fraction, warn_of_unknown
from kbert.training.callbacks import callback_list
from kbert.training.dev_scoring import DevScoring, evaluation_steps, without_neighbours
from kbert.training.dry_run import estimate_training
from kbert.training.exact_resume import ExactResume
from kbert.training.hardware import check_accumulation, choose_hardware
from kbert.training.loop import train, training_steps
from kbert.training.made_by import METRICS, identify_model, note_origin
from kbert.training.run_directory import RunDirectory, open_run
from kbert.training.run_log import RunLog, read_history, training_minutes
from kbert.weights.adapter import save_adapter
from kbert.weights.build_pipeline import build_pipeline
from kbert.weights.load import load_pretrained
from kbert.weights.provenance import trained_columns
from kbert.weights.report import log_dropout
from kbert.weights.save import resolve_parts, save_pretrained
from kbert.weights.source import check_source, local_source

_LOGGER = logging.getLogger("kbert")
_CHECKPOINT_EVERY = 200  # steps
_FIRST = 200  # examples, whose fraction of [UNK] is looked at
_LOG_EVERY = 50  # steps


class Finetuning:
    """A fine-tuning that is ready to start: everything is read, built and checked, and nothing is written yet.

    A teacher has not answered yet: `ask_teacher` asks it.

    Its `task`, `train`, `dev` and `more_dev` are as completed: labels as numbers, without examples that cannot be
    learned.
    """

    def __init__(self, arguments: Arguments) -> None:
        self.asked = arguments
        self._directory = None
        self._check()
        self._read()
        self._build()

    def _check(self) -> None:
        asked = self.asked
        if not isinstance(asked.task, Task):
            raise TypeError(
                "finetune: expected `task` as a task object, such as kbert.tasks.Classification(text=..., label=...). "
                f"Received: {asked.task!r}"
            )
        if not isinstance(asked.source, BertModel | Pipeline):
            check_source("finetune: `source`", asked.source, "a kbert model", "a kbert.Pipeline")
        self.output = None if asked.output is None else pathlib.Path(asked.output)
        self.log_dir = log_directory("finetune", asked.bookkeeping.log_dir, asked.output, asked.bookkeeping.profile)
        self._checkpoint_every = asked.bookkeeping.checkpoint_every or _CHECKPOINT_EVERY
        self.callbacks = callback_list("finetune", asked.bookkeeping.callbacks, has_own_rate=True)
        taught = asked.distillation
        if taught.unlabelled is not None and (taught.teacher is None or asked.class_weight is not None):
            raise ValueError("finetune: `unlabelled` needs `teacher`, and no `class_weight`")

    # Read

    def _read(self) -> None:
        asked = self.asked
        train = asked.task.examples(asked.train)
        dev = asked.dev
        if dev is None and has_splits(asked.train) and "validation" in asked.train:
            dev = asked.train
        if dev is None:
            self._check_without_dev()
        if isinstance(dev, float):
            train, dev = train.split(dev)
        self.dev = None if dev is None else asked.task.examples(dev, dev=True)
        more_dev = asked.scoring.more_dev or {}
        self.more_dev = {suffix: asked.task.examples(examples, dev=True) for suffix, examples in more_dev.items()}
        self._examples = {"train": train, "dev": self.dev}  # as given
        self._more_examples = {f"more_dev{suffix}": examples for suffix, examples in self.more_dev.items()}
        self.task, self.train = asked.task.for_training(train)

    def _check_without_dev(self) -> None:
        """Raises ValueError for what only evaluations on `dev` use."""
        scoring = self.asked.scoring
        every = None if scoring.evaluate_every == "epoch" else scoring.evaluate_every  # the default
        needs = {"more_dev": list(scoring.more_dev or ()), "patience": scoring.patience, "evaluate_every": every}
        for name, value in needs.items():
            if value:
                raise ValueError(f"finetune: `{name}` needs `dev`. Received: {name}={value!r} and dev=None")

    # Build

    def _build(self) -> None:
        asked, machine = self.asked, self.asked.machine
        self.hardware = choose_hardware(
            machine.strategy, machine.precision, machine.xla, machine.logical_cpus, source=asked.source
        )
        check_accumulation(asked.optimization.accumulate, self.hardware, [asked.batch_size])
        if self.task.even_batches and asked.batch_size % (replicas := self.hardware.replicas):
            raise ValueError(
                f"A batch size of {self.task.name} must be a multiple of the {replicas} replicas, which share it. "
                f"Received: {asked.batch_size}"
            )
        settings = self.task.settings(self.train)
        for dev in (self.dev, *self.more_dev.values()):
            if dev is not None:
                self.task.check_dev(dev, settings)
        self._take_labels(settings)
        with seeded(asked.seed), self.hardware.scope():
            self.pipeline = starting_pipeline(asked.source, self.task, settings, asked)
        check_not_quantized(self.pipeline.model)
        if asked.lora_rank and lora_layers(self.pipeline.model):
            raise ValueError("finetune: `lora_rank` needs a model without LoRA. Call its `merge_lora()` first.")
        self._init = identify_model(asked.source)  # now: a model that is given is trained in place
        self._take_labels(self.pipeline.settings())  # in the order of a head that is trained further
        if asked.class_weight is not None:
            self.task.check_class_weight(asked.class_weight, self.pipeline, self.train)
        first = self.train.take(range(min(len(self.train), _FIRST)))
        fraction = unknown_fraction(self.pipeline.tokenizer, first.columns.values())
        warn_of_unknown(fraction, self.train.path or "the training examples")
        self.teaching = None
        if asked.distillation.teacher is not None:
            self.teaching = Teaching(asked, self.task, self.pipeline, self.train)
        self.data = self._training_data()  # with a teacher made again, with its answers

    def _take_labels(self, settings) -> None:
        """Labels become numbers, in the order that the settings have."""
        self.train = self.task.for_model(self.train, settings)
        self.dev = None if self.dev is None else self.task.for_model(self.dev, settings)
        self.more_dev = {suffix: self.task.for_model(dev, settings) for suffix, dev in self.more_dev.items()}

    # Open

    def settings(self) -> dict[str, Any]:
        """The settings that define the run, as in settings.json; ``kbert finetune --config`` takes them."""
        asked = self.asked
        named = {"source": self._init, "task": asked.task.to_dict()}
        named |= {name: examples and examples.path for name, examples in self._examples.items()}
        if isinstance(asked.dev, float):
            named["dev"] = asked.dev
        settings = asked.settings() | to_json(named)
        if self.teaching is not None:
            settings["distillation"] |= to_json({"teacher": self.teaching.name, "unlabelled": self._unlabelled_file()})
        return settings

    def open(self) -> RunDirectory | None:
        """Opens the output directory by the rule of `open_run`; `run` does this if it was not done before."""
        if self._directory is None and self.output is not None:
            given = self._examples | self._more_examples
            examples = {name: rows.fingerprint() for name, rows in given.items() if rows is not None}
            if self.teaching is not None:
                examples["taught"] = self.teaching.examples.fingerprint()
            texts = self.asked.distillation.unlabelled
            if texts is not None and not _is_path(texts):
                examples["unlabelled"] = hash_of_texts(texts)
            self._directory = open_run(
                self.output,
                self.settings(),
                self.asked.overwrite,
                self.hardware,
                inputs=self._files(),
                recipe="kbert.finetune",
                examples=examples,
                reuse=self.asked.reuse,
            )
        return self._directory

    def _files(self) -> dict[str, Any]:
        files = {name: examples.path for name, examples in self._examples.items() if examples is not None}
        if files.get("dev") == files["train"]:
            files.pop("dev", None)  # held out of it
        files["more_dev"] = [examples.path for examples in self.more_dev.values() if examples.path] or None
        files |= {name: local_source(model) or model for name, model in self._models().items()}
        files["unlabelled"] = self._unlabelled_file()
        return files

    def _unlabelled_file(self) -> Any:
        texts = self.asked.distillation.unlabelled
        return texts if _is_path(texts) else None

    def _models(self) -> dict[str, Any]:
        models = {"source": self.asked.source, "teacher": self.asked.distillation.teacher}
        return {name: model for name, model in models.items() if _is_path(model)}

    # Train

    def ask_teacher(self) -> None:
        """The teacher, if there is one, answers the examples, for the training data; `run` does this after `open`.

        It may take hours, which would be lost if the output could not be opened.
        """
        if self.teaching is None:
            return
        self.teaching.ask(self._directory)
        self.data = self._training_data()

    def estimate(self) -> dict[str, Any]:
        """The result of `estimate_training` on a copy of the model, and the numbers of ``examples`` and ``windows``."""
        with self.hardware.scope():
            model = copy_model(self.pipeline.model)
        self._add_lora(model)
        self._compile(model)
        estimate = estimate_training(model, self.data.make_dataset(), self._steps())
        return {"examples": len(self.train), "windows": self.data.windows} | estimate

    def run(self) -> FinetunedRun:
        """Trains, evaluates and saves; an unfinished run in the output is resumed."""
        asked = self.asked
        if asked.dry_run:
            return FinetunedRun(self.estimate(), [], self.pipeline, None)
        directory = self.open()
        if directory is not None and directory.is_finished:
            with self.hardware.scope():
                pipeline = build_pipeline(load_pretrained(directory.path))
            metrics, history = read_json(directory.path / METRICS), read_history(directory.path / "history.jsonl")
            return FinetunedRun(metrics, history, pipeline, directory.path)
        self.ask_teacher()
        run = Run(directory, self.log_dir, self.hardware.is_chief)
        _LOGGER.info(self.hardware.describe())
        data = self.data
        model = self.pipeline.model
        steps = self._steps()
        self._log_plan(steps)
        self._add_lora(model)  # not before: a model that is given stays as it is until its training begins
        self._compile(model)
        _, tokenizer, model_settings = resolve_parts(self.pipeline)
        run.describe_model(model, model_settings, tokenizer.vocabulary)
        scoring = self._scoring(steps)
        run.show(
            self.settings() | model.config.to_dict() | {"parameters": model.count_params()},
            {} if self.dev is None else self._constant_answer(self.dev),
            batch=lambda: next(iter(data.make_dataset())),
            profile=asked.bookkeeping.profile,
            examples=None if scoring is None else functools.partial(DevExamples, scoring),
        )
        log = RunLog(self.output, asked.batch_size * data.real_tokens)
        callbacks = [log, *self.callbacks] if scoring is None else [scoring, log]
        callbacks += run.callbacks
        start = 0
        if directory is not None:
            stored = [] if scoring is None else [scoring]
            resume = ExactResume(self.output, model, every=self._checkpoint_every, callbacks=stored)
            start = resume.step
            callbacks.append(resume)
        log_every = asked.bookkeeping.log_every or _LOG_EVERY
        done = train(model, data.make_dataset, steps, start=start, log_every=log_every, callbacks=callbacks)
        metrics = self._describe(log.records, done)
        if scoring is None:
            result = None
            scored_step = done
            scores = log.records[-1] if log.records else {}
        else:
            scored_step = scoring.kept_step(done)
            result, scored = self._score_kept(scoring, scored_step)
            metrics = scored | metrics
            scores = result.scores
        run.finish(metrics, scores, scored_step, functools.partial(self._save, run, result))
        note_origin(model, directory, metrics, "kbert.finetune", self.settings(), ("source", *self._examples))
        self.pipeline.trained_columns = trained_columns(model)
        return FinetunedRun(metrics, log.records, self.pipeline, self.output)

    def _log_plan(self, steps: int) -> None:
        windows = f" in {self.data.windows:,} windows" if self.data.windows != len(self.train) else ""
        evaluated = f", {len(self.dev):,} to evaluate on" if self.dev is not None else ""
        if self.teaching is not None and self.teaching.unlabelled:
            _LOGGER.info("%s texts without labels, which the teacher answers", f"{self.teaching.unlabelled:,}")
        _LOGGER.info(
            "%s examples%s to learn from%s; %s steps", f"{len(self.train):,}", windows, evaluated, f"{steps:,}"
        )
        model = self.pipeline.model
        if trainability(model) and not self.asked.lora_rank:
            trained = sum(math.prod(weight.shape) for weight in model.trainable_weights)
            every = model.count_params()
            _LOGGER.info("frozen in the source: %s of %s parameters are trained", f"{trained:,}", f"{every:,}")
        log_dropout(model.config, self.asked.source, self.asked.dropout)
        if self.dev is None:
            _LOGGER.info("no dev set: nothing is evaluated, and the weights of the last step are kept")

    @property
    def _is_taught(self) -> bool:
        return self.teaching is not None and self.teaching.answers is not None  # a dry run has no answers

    def _training_data(self) -> TrainingData:
        asked = self.asked
        more = {} if asked.class_weight is None else {"class_weight": asked.class_weight}
        if self._is_taught:
            more["teacher"] = self.teaching.answers
        padding = "bucket" if self.hardware.jit_compile else "longest"
        return self.task.training_data(
            self.pipeline,
            self.train if self.teaching is None else self.teaching.examples,
            **more,
            batch_size=asked.batch_size,
            seed=asked.seed,
            padding="full" if self.hardware.name == "tpu" else padding,
            group_by_length=asked.group_by_length,
        )

    def _steps(self) -> int:
        return self.asked.steps or training_steps(self.data.rows, self.asked.batch_size, self.asked.epochs)

    def _add_lora(self, model) -> None:
        if self.asked.lora_rank:
            with seeded(self.asked.seed), self.hardware.scope():
                model.enable_lora(self.asked.lora_rank)

    def _compile(self, model) -> None:
        asked = self.asked
        steps = self._steps()
        schedule = WarmupLinearDecay(asked.learning_rate, int(asked.warmup_proportion * steps), steps)
        with self.hardware.scope():
            model.compile(
                make_optimizer(asked.optimization, schedule),
                distillation_losses(model, asked.distillation) if self._is_taught else "auto",
                micro_batches=asked.optimization.accumulate,
                jit_compile=self.hardware.jit_compile,
            )

    # Evaluate

    def _scoring(self, steps: int) -> DevScoring | None:
        """The evaluation on `dev`, whose ends are the epochs of the caller's callbacks."""
        if self.dev is None:
            return None
        scoring, task = self.asked.scoring, self.task
        for callback in self.callbacks:
            score = str(getattr(callback, "monitor", "")).removeprefix("val_")
            if getattr(callback, "mode", None) == "auto" and score in task.metrics:
                callback.mode = "min" if score in task.lower_is_better else "max"
        return DevScoring(
            self._score_dev,
            task.metrics[0],
            without_neighbours(evaluation_steps(steps, scoring.evaluate_every, self.data.rows / self.asked.batch_size)),
            keep=scoring.keep,
            patience=scoring.patience,
            lower_is_better=task.metrics[0] in task.lower_is_better,
            callbacks=self.callbacks,
        )

    def _score_dev(self) -> Evaluation:
        """The scores on the dev set, which also chooses settings such as the null threshold."""
        return self._score(self.dev, choose=True)

    def _score(self, examples: Examples, choose: bool = False) -> Evaluation:
        is_static = self.hardware.name == "tpu"
        return self.task.evaluate(
            self.pipeline, examples, choose=choose, batch_size=self.asked.batch_size, static=is_static
        )

    def _constant_answer(self, examples: Examples) -> dict[str, float]:
        """The scores of the training examples' most frequent answer."""
        return self.task.baseline_scores(self.train.baseline(), examples)

    def _score_kept(self, scoring: DevScoring, kept_step: int) -> tuple[Evaluation, dict[str, Any]]:
        """Restores and evaluates the weights that are kept; returns the evaluation and its part of metrics.json.

        The pipeline takes the settings that were chosen on `dev`, with which `more_dev` is scored.
        """
        model = self.pipeline.model
        scoring.restore_kept(model)
        step, result = scoring.last
        if result is None or step != kept_step:
            result = self._score_dev()
        if result.settings:
            options = self.pipeline.options() | result.settings
            self.pipeline = build_pipeline(model, self.pipeline.tokenizer, **options)
        scores = dict(result.scores)
        constant = dict(self._constant_answer(self.dev))
        for suffix, examples in self.more_dev.items():
            more = self._score(examples).scores
            baseline = self._constant_answer(examples)
            scores |= {name + suffix: more[name] for name in self.task.metrics}
            constant |= {name + suffix: baseline[name] for name in self.task.metrics}
        return result, {
            "dev": scores,
            **result.settings,
            "constant_answer": constant,
            "evaluations": scoring.records,
            "kept_step": kept_step,
        }

    # Save

    def _describe(self, history: list[dict], steps: int) -> dict[str, Any]:
        speeds = [record["real_tokens_per_second"] for record in history if "real_tokens_per_second" in record]
        return {
            "task": self.task.to_dict(),  # with what the training examples decided
            "train_examples": len(self.train),
            "unlabelled_examples": 0 if self.teaching is None else self.teaching.unlabelled,
            "train_windows": self.data.windows,
            "dev_examples": 0 if self.dev is None else len(self.dev),
            "steps": steps,
            "minutes": training_minutes(history),
            "real_tokens_per_second": sum(speeds) / len(speeds) if speeds else None,
        }

    def _save(self, run: Run, result: Evaluation | None, path, made_by) -> None:
        save_pretrained(self.pipeline, path, made_by=made_by, overwrite=True)
        if self.asked.lora_rank:
            save_adapter(self.pipeline.model, run.path / "adapter")
        if result is not None and result.write is not None:
            result.write(run.path)


def _is_path(source) -> bool:
    return isinstance(source, str | os.PathLike)
