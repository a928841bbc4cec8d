"""Whether a pre-training packs its rows."""

import logging

from kbert.pretraining.real_shares import real_shares
from kbert.pretraining.tfrecords import is_tfrecords

_LOGGER = logging.getLogger("kbert")
_LEAST_GAIN = 1.05  # times as many real tokens in a row: what attention within parts costs, and a little more


def choose_packing(settings, tokenizer):
    """The settings with `packed` decided: by `packing_pays` if nothing was given; filled rows are, TFRecords not."""
    if settings.packed is not None:
        return settings
    if is_tfrecords(settings.source):
        return settings.with_packing(False)
    if settings.fill_rows:
        return settings.with_packing(True)
    names = ("next_sentence", "random_next_rate", "mask_rate", "left_to_right")
    objective = {name: value for name, value in settings.objective().items() if name in names}
    pays = packing_pays(
        settings.source,
        tokenizer,
        settings.all_phases(),
        num_parts=settings.num_parts,
        seed=settings.seed,
        held_out=settings.held_out,
        **objective,
    )
    return settings.with_packing(pays)


def packing_pays(source, tokenizer, phases, **options) -> bool:
    """Whether packed rows are fewer rows, by a twentieth.

    By the lengths of the pairs of the first shard of records, or of the first pool of text: a function of the arguments
    and the corpus, so that a run that is resumed decides the same.
    """
    plain, packed, total = 0.0, 0.0, 0.0
    for length, share, rows, predictions in phases:
        lengths = {"sequence_length": length, "max_predictions": predictions}
        shares = real_shares(source, tokenizer, **lengths, **options, filled=False)
        tokens = share * rows * length
        plain, packed, total = plain + tokens * shares["plain"], packed + tokens * shares["packed"], total + tokens
    pays = packed >= _LEAST_GAIN * plain > 0
    _LOGGER.info(
        "%s rows: %.1f%% of a plain row is text, %.1f%% of a packed one",
        "packed" if pays else "plain",
        100 * plain / total,
        100 * packed / total,
    )
    return pays
