"""Pre-trainings on the same rows without making again what is not their batches of training."""

import dataclasses

from kbert.pretraining.run.pretrain import Masking, Objective, Rows


def data_once(set_attribute):
    """From now on runs of `kbert.pretrain` with the same data share their held-out batches and statistics.

    Only for tests beside one that looks at what was made first.
    """
    from kbert.pretraining.run.corpus_data import CorpusData

    for name in ("evaluations", "describe"):
        set_attribute(CorpusData, name, _once(getattr(CorpusData, name)))


def _once(make):
    made = {}

    def make_once(data, *others):
        settings, tokenizer, stages = data.settings, data.tokenizer, data.settings.stages()
        names = [field.name for group in (Masking, Objective, Rows) for field in dataclasses.fields(group)]
        of_data = [getattr(settings, name) for name in (*names, "source", "num_parts", "accumulate", "seed")]
        key = repr((stages, of_data, tokenizer.settings()))
        if key not in made:
            made[key] = make(data, *others)
        return made[key]

    return make_once
