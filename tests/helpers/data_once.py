"""Pre-trainings on the same rows without making again what is not their batches of training."""


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
        names = ("source", "packed", "num_parts", "held_out", "evaluation_batches", "accumulate", "seed")
        key = repr((stages, settings.objective(), [getattr(settings, name) for name in names], tokenizer.settings()))
        if key not in made:
            made[key] = make(data, *others)
        return made[key]

    return make_once
