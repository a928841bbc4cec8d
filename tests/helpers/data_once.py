"""Pre-trainings on the same rows without making again what is not their batches of training."""

from kbert.corpus.documents import DocumentList

_made = {}


def data_once(set_attribute):
    """From now on runs of `kbert.pretrain` with the same data share their held-out batches and statistics.

    Only for tests beside one that looks at what was made first.
    """
    from kbert.pretraining.run.corpus_data import CorpusData

    for name in ("evaluations", "describe"):
        set_attribute(CorpusData, name, _once(name, getattr(CorpusData, name)))


def _once(name, make):
    def make_once(data, *others):
        settings = data.settings
        source = settings.source.fingerprint() if isinstance(settings.source, DocumentList) else str(settings.source)
        fields = ("packed", "num_parts", "held_out", "evaluation_batches", "accumulate", "seed")
        options = [settings.stages(), settings.objective(), [getattr(settings, field) for field in fields]]
        key = repr((name, source, options, data.tokenizer.vocabulary, data.tokenizer.settings()))
        if key not in _made:
            _made[key] = make(data, *others)
        return _made[key]

    return make_once
