"""Pre-trainings on the same rows without making again what they read."""

import dataclasses


def data_once(set_attribute):
    """From now on runs of `kbert.pretrain` with the same data share their batches and statistics.

    Only for tests beside one that looks at what was made first, and beside runs that read their rows as they are made.
    """
    from kbert.pretraining.run.corpus_data import CorpusData

    for name in ("evaluations", "describe"):
        set_attribute(CorpusData, name, _once(getattr(CorpusData, name)))
    set_attribute(CorpusData, "from_step", _read_once(CorpusData.from_step))


_LEAST = 32  # batches that are read at once: as many for short runs of different lengths


def _once(make):
    made = {}

    def make_once(data, *others):
        key = (_key(data), *(other for other in others if isinstance(other, int)))
        if key not in made:
            made[key] = make(data, *others)
        return made[key]

    return make_once


def _read_once(from_step):
    """The batches of training in memory: what makes them takes a second to set up whenever they are read."""
    import numpy as np
    import tensorflow as tf

    read = {}

    def read_once(data, phase, start_step):
        number = max(_LEAST, data.course.steps or 0)
        key = (_key(data), phase, start_step, number)
        if key not in read:
            batches = list(from_step(data, phase, start_step).take(number).as_numpy_iterator())
            columns = tf.nest.map_structure(lambda *values: np.stack(values), *batches)
            # As without an end, for runs by the clock; an error where one comes to it.
            endless = tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)
            read[key] = tf.data.Dataset.from_tensor_slices(columns).apply(endless)
        return read[key]

    return read_once


def _key(data):
    source = data.source
    if hasattr(source, "manifest"):  # of records
        source = source.manifest["sha256"]
    fields = {field.name: getattr(data, field.name) for field in dataclasses.fields(data)}
    return repr((fields | {"source": source}, data.tokenizer.settings()))
