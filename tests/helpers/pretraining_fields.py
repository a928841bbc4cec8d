"""What `kbert.pretrain` makes of its arguments, without a run."""

import dataclasses
import inspect

import kbert
from kbert.pretraining.run.corpus_data import CorpusData
from kbert.pretraining.run.course import Course, plan_phases, read_ramp
from kbert.pretraining.run.options import Masking
from kbert.pretraining.run.source import RowOptions

_DEFAULTS = {name: parameter.default for name, parameter in inspect.signature(kbert.pretrain).parameters.items()}


def row_options(**given) -> RowOptions:
    """The rows of these arguments, else of the defaults."""
    return RowOptions(**{field.name: (_DEFAULTS | given)[field.name] for field in dataclasses.fields(RowOptions)})


def course_of(steps=None, masking=Masking(), steps_per_execution=1, **given) -> Course:  # noqa: B008 - frozen
    """The course of these arguments, else of the defaults."""
    options = _DEFAULTS | given
    names = ("phases", "sequence_length", "batch_size")
    rates = (masking.max_predictions, options["mask_rate"], options["left_to_right"])
    phases = plan_phases(*(options[name] for name in names), *rates)
    return Course(phases, read_ramp(options["batch_size_ramp"]), steps, steps_per_execution)


def corpus_data(source, tokenizer, **given) -> CorpusData:
    """The data of a run."""
    names = {field.name for field in dataclasses.fields(RowOptions)}
    rows = row_options(**{name: value for name, value in given.items() if name in names})
    data = CorpusData(source, rows, course_of(**given), given.get("seed", 0))
    data.take_tokenizer(tokenizer)
    return data
