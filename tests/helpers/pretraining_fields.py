"""What `kbert.pretrain` makes of its arguments, without a run."""

import dataclasses
import inspect

import kbert
from kbert.pretraining.run.corpus_data import CorpusData
from kbert.pretraining.run.course import Course, plan_phases
from kbert.pretraining.run.options import Masking

_DEFAULTS = {name: parameter.default for name, parameter in inspect.signature(kbert.pretrain).parameters.items()}


def course_of(steps=None, masking=Masking(), steps_per_execution=1, **given) -> Course:  # noqa: B008 - frozen
    """The course of these arguments, else of the defaults."""
    names = ("phases", "batch_size", "sequence_length", "mask_rate", "left_to_right")
    options = {name: (_DEFAULTS | given)[name] for name in names}
    return Course(plan_phases(**options, max_predictions=masking.max_predictions), steps, steps_per_execution)


def corpus_data(source, tokenizer, **given) -> CorpusData:
    """The data of a run."""
    names = {field.name for field in dataclasses.fields(CorpusData)} & _DEFAULTS.keys()
    options = {name: (_DEFAULTS | given)[name] for name in names}
    data = CorpusData(source=source, course=course_of(**given), **options)
    data.tokenizer = tokenizer
    return data
