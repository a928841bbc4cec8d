"""The pre-trainings and fine-tunings behind tables: each made once, whichever rows and tables need it."""

import dataclasses
import gc
import itertools
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.cells import WORST, Cells
from experiments.downstream import NER, SQUAD, Downstream, chosen_by_column, count_examples, named_tasks
from experiments.paper_tables import Row, Table
from experiments.pretrained_rows import PretrainedRows, run_folder
from experiments.processor_name import processor_name
from kbert.corpus.records_manifest import is_records
from kbert.files import read_json
from kbert.finetuning.features.modes import FEATURE_MODES
from kbert.finetuning.features.train import FeatureTraining, train_feature_taggers
from kbert.options import Arguments
from kbert.training.made_by import INPUTS, METRICS
from kbert.weights.load import load_pretrained


class Study:
    """Runs that tables share, in one directory; the same call resumes after a kill.

    Pre-trainings are kept (`PretrainedRows`). Each fine-tuning keeps only its scores (`Cells`).

    Args:
        source: what `kbert.pretrain` trains on: records, or text with `vocabulary` among `pretraining`.
        output: directory of all runs.
        tasks: `Downstream` objects, the columns.
        pretraining: arguments of `kbert.pretrain` that all rows share: size, steps or hours, settings ...
        seeds: of the fine-tunings.
        rates: learning rates of the fine-tunings; each row and column has the one that is best on dev by the mean.
        finetuning: further options of `kbert.finetune` that all rows share: epochs, batch_size ...
        feature_training: `FeatureTraining` of the feature-based columns, without its seed.
        recipe: the program that manifests name.

    Attributes:
        pretrainings: `PretrainedRows`.
        records: folder of a run, or file of a fine-tuning → what says when it was started and with which versions, of
            those that were made or read; `experiments.run_table` empties it before each table.

    Example::

        study = Study("records", "runs/ablations", tasks, pretraining={"size": "tiny", "steps": 20_000})
        study.scores(Row(name="No NSP", pretraining={"next_sentence": False}), tasks[0])  # {5e-5: [70.1]}
    """

    def __init__(
        self,
        source,
        output,
        tasks: Sequence[Downstream],
        *,
        pretraining: Mapping[str, Any],
        seeds: Sequence[int] = (0,),
        rates: Sequence[float] = (5e-5,),
        finetuning: Mapping[str, Any] | None = None,
        feature_training: FeatureTraining | None = None,
        recipe: str = "experiments",
    ):
        for name, values in (("seeds", seeds), ("rates", rates), ("tasks", [task.name for task in tasks])):
            if not values or len(set(values)) < len(values):
                raise ValueError(f"Study: expected at least one of `{name}`, all different. Received: {list(values)}")
        if own := {"learning_rate", "seed"} & set(finetuning or ()):
            raise ValueError(
                "Study: `rates` and `seeds` are what fine-tunings differ in; expected other options in `finetuning`. "
                f"Received: {sorted(own)}"
            )
        self.output, self.tasks, self.finetuning = pathlib.Path(output), list(tasks), dict(finetuning or {})
        self.seeds, self.rates = list(seeds), list(rates)
        self.feature_training = feature_training or FeatureTraining()
        self.recipe = recipe
        self.pretrainings = PretrainedRows(source, self.output / "pretraining", pretraining)
        self.records = self.pretrainings.records
        self._cells = Cells(self.output / "finetuning", recipe)

    def settings(self) -> dict:
        """What the study's figures depend on besides the rows, as JSON; files by their names."""
        features = dataclasses.asdict(self.feature_training)
        del features["seed"]  # those of `seeds`
        own = {"examples": count_examples(self.tasks), "seeds": self.seeds, "learning_rates": self.rates}
        own |= {"finetuning": self.finetuning, "feature_training": features}
        processor, cores = processor_name()
        shared = self.pretrainings.settings()
        return json.loads(json.dumps(shared | own | {"processor": processor, "cores": cores}))

    def columns(self, table: Table) -> dict[str, tuple[Downstream, str | None]]:
        """The columns of a table: name → (task, feature mode or None for fine-tuning)."""
        columns = {task.name: (task, None) for task in self.tasks}
        on_features = any(row.feature_mode for row in table.rows)
        if table.has_features and NER not in columns:
            raise ValueError(f"{table.name}: expected tagged words among the tasks. Received: {list(columns)}")
        columns = {NER: columns[NER]} if on_features else columns
        return columns | {f"{NER} {mode}": (columns[NER][0], mode) for mode in table.feature_columns}

    def check(self, table: Table) -> None:
        """Raises what would otherwise end `experiments.run_table` after hours: before anything is written."""
        self.columns(table)
        self.pretrainings.check(table.rows)

    def scores(self, row: Row, task: Downstream, feature_mode: str | None = None) -> dict[float, list[float]]:
        """Learning rate → the figure of each seed, in percent; runs that are not there are made.

        Args:
            row: of a table.
            task: the column.
            feature_mode: tag words on features of a frozen encoder instead of fine-tuning.
        """
        if feature_mode is not None:
            rate = self.feature_training.learning_rate
            return {rate: [self._on_features(row, task, feature_mode, seed) for seed in self.seeds]}
        found = {rate: [self._finetuned(row, task, rate, seed) for seed in self.seeds] for rate in self.rates}
        if all(WORST in values for values in found.values()):
            raise FloatingPointError(
                f"{row.name}, {task.name}: expected learning rates with which all seeds train. Received: {self.rates}"
            )
        return {rate: values for rate, values in found.items() if WORST not in values}

    def trainings(self, row: Row, task: Downstream, feature_mode: str | None = None) -> dict[str, bool]:
        """The trainings behind `scores`: what tells each from the others → whether it is there. None is made."""
        if feature_mode is not None:
            paths = [self._features_path(row, task, seed) / feature_mode for seed in self.seeds]
            return {str(path): (path / METRICS).exists() for path in paths}
        found = {}
        for rate, seed in itertools.product(self.rates, self.seeds):
            options = self._options(row, task, rate, seed)
            if self.pretrainings.is_made(row):
                path = self._cells.path(self.pretrainings.source_of(row), chosen_by_column(task), options)
                found[str(path)] = path.exists()
            else:  # the file's name is not known before the model is
                found[json.dumps([str(self.pretrainings.folder(row)), row.fraction, task.name, options])] = False
        return found

    def constant_answer(self, task: Downstream) -> float | None:
        """The figure of the most frequent answer; None where no fine-tuning on the task was made or read."""
        return self._cells.constant_answer(task)

    def _options(self, row, task, rate, seed):
        return self._finetuning(task) | dict(row.finetuning) | {"learning_rate": rate, "seed": seed}

    def _finetuned(self, row, task, rate, seed):
        options = self._options(row, task, rate, seed)
        found = self._cells.score(self.pretrainings.source_of(row), chosen_by_column(task), options)
        self.records[found["file"]] = found
        return found["percent"]

    def _on_features(self, row, task, mode, seed):
        if mode not in FEATURE_MODES or task.task.name != "tagging":
            raise ValueError(
                f"Study: features are for tagging, in one of the modes {FEATURE_MODES}. Received: {task.name}, {mode!r}"
            )
        options, (length, encoded) = vars(self.feature_training) | {"seed": seed}, self._encoded(row, task)
        path = self._features_path(row, task, seed)
        if not (path / mode / METRICS).exists():
            source = self.pretrainings.source_of(row)
            gc.collect()
            encoder = load_pretrained(source, "encoder", outputs=("hidden_states",), sequence_length=length)
            train_feature_taggers(
                encoder,
                {"train": task.train, "dev": task.dev},
                task.task.settings(task.train)["labels"],
                path,
                (mode,),
                sequence_length=length,
                settings={**encoded, "options": options},
                inputs={"init": source},
                recipe=self.recipe,
                training=FeatureTraining(**options),
                features=path.parent / "features",
            )
        self.records[path / mode] = read_json(path / mode / INPUTS)
        return task.percent(read_json(path / mode / METRICS)["dev"])

    def _encoded(self, row, task):
        """Tokens of a window, and what decides the features of a row's encoder."""
        length = self._finetuning(task).get("sequence_length") or 128
        return length, self.pretrainings.identity(row) | {"examples": task.settings(), "sequence_length": length}

    def _features_path(self, row, task, seed):
        options = vars(self.feature_training) | {"seed": seed}
        shared = self.output / "features" / run_folder(self.pretrainings.name(row), self._encoded(row, task)[1])
        return shared / run_folder(f"seed-{seed}", options)

    def _finetuning(self, task):
        """The shared options; what a task needs stands where nothing else was given."""
        given = {name: value for name, value in self.finetuning.items() if value is not None}
        return self.finetuning | dict(task.options) | given


def make_study(arguments: Arguments, recipe: str) -> Study:
    """The `Study` that the flags of recipes/ablations.py describe."""
    words = [*arguments.tasks, *([NER] if arguments.ner else []), *([SQUAD] if arguments.squad else [])]
    if limit := arguments.train_examples:  # of the tasks that have no limits of their own
        words = [word if ":" in word else f"{word}:{limit}" for word in words]
    tasks = named_tasks(words, glue=arguments.glue, ner=arguments.ner, squad=arguments.squad)
    names = ("vocabulary", "size", "steps", "hours", "settings", "held_out")
    pretraining = {name: getattr(arguments, name) for name in names} | {"seed": arguments.seeds[0]}
    pretraining |= {"batch_size": arguments.pretraining_batch_size, "sequence_length": arguments.pretraining_length}
    pretraining |= {"precision": arguments.pretraining_precision, "learning_rate": arguments.pretraining_learning_rate}
    names = ("epochs", "batch_size", "sequence_length", "dropout")
    features = {"epochs": arguments.feature_epochs, "units": arguments.feature_units, "evaluate_every": None}
    sources = list(arguments.corpus_or_records)
    source = sources[0] if len(sources) == 1 and is_records(sources[0]) else sources
    return Study(
        source,
        arguments.output,
        tasks,
        pretraining={name: value for name, value in pretraining.items() if value is not None},
        seeds=arguments.seeds,
        rates=arguments.learning_rates,
        finetuning={name: getattr(arguments, name) for name in names},
        feature_training=FeatureTraining(**features),
        recipe=recipe,
    )
