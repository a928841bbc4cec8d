"""How well a stored model predicts masked tokens and next sentences of held-out text."""

import datetime
import math
from typing import Annotated, Any

from kbert.checks import check_output_file
from kbert.files import write_json
from kbert.options import PASSING, CorpusFormat, Count, NonzeroFraction, PathLike, Precision, verb
from kbert.versions import versions

_HEADS = {"masked_lm": False, "pretraining": True}  # task → whether it predicts next sentences


def _run(asked) -> dict[str, Any]:
    # Not above: they load TensorFlow.
    from kbert.pretraining.run.pretraining_settings import corpus_source
    from kbert.training.hardware import choose_hardware
    from kbert.training.made_by import identify_source

    output = asked.output and check_output_file(asked.output, asked.overwrite, (".json",))
    corpus_or_records = corpus_source(asked.corpus_or_records)
    with choose_hardware("one", asked.precision).scope():
        scores = _scores(asked, corpus_or_records)
    if output:
        settings = asked.settings() | {"corpus_or_records": identify_source(corpus_or_records)}
        date = datetime.date.today().isoformat()
        write_json(output, {**scores, "settings": settings, "date": date, "versions": versions()})
    return scores


@verb(_run)
def evaluate_pretraining(
    source: PathLike,
    corpus_or_records: list[PathLike] | PathLike | Any,
    *,
    held_out: NonzeroFraction | None = None,
    format: CorpusFormat | None = None,
    language: str | None = None,
    sequence_length: Count = 128,
    batch_size: Count = 32,
    precision: Precision = "auto",
    output: Annotated[PathLike | None, PASSING] = None,
    overwrite: Annotated[bool, PASSING] = False,
) -> dict[str, float | int]:
    """Scores how well a stored model predicts masked tokens and next sentences of held-out text.

    All held-out documents of a corpus are scored, once, with the same pairs and masks for every model that has the same
    vocabulary, also of another library. `kbert.pretrain` measures a sample of them while it trains.

    Args:
        source: of a model with a masked-LM head, as for `kbert.load_pretrained`.
        corpus_or_records: paths of text, documents in memory or the directory of records, as for `kbert.pretrain`;
            records must have the vocabulary of the model.
        held_out: of text, the fraction of documents that are scored: 0.01 by default, as in `kbert.pretrain`. 1 scores
            the whole corpus, such as a file that the model was not trained on.
        format: of text; auto: detected from the content of each file.
        language: of text, for splitting prose into sentences.
        sequence_length: tokens per row. 15 % of them are masked, and of TFRecords those that the files name.
        batch_size: rows per forward pass; it changes neither pairs nor masks.
        precision: of the arithmetic.
        output: a .json file for the scores, with the settings, the versions and the date.
        overwrite: replace `output`.

    Returns:
        dict: ``mlm_accuracy``, ``mlm_cross_entropy`` (in nats) and ``mlm_perplexity``, each with the token frequencies
        of the other documents as a baseline (``unigram_accuracy``, ``unigram_cross_entropy``), or with ``held_out=1``
        of the scored documents; of a model with a next-sentence head ``nsp_accuracy`` and ``most_frequent_nsp``, the
        accuracy of always giving the more frequent label; ``masks`` and ``pairs``, how many were scored;
        ``mlm_standard_error`` and ``nsp_standard_error`` of the accuracies, for independent masks and pairs.

    Raises:
        FileNotFoundError: no such model or corpus.
        ValueError: `source` is no path or name; a model without a masked-LM head or without a vocabulary; a
            left-to-right one; records with another vocabulary; no held-out documents.

    Example::

        kbert.pretraining.evaluate_pretraining("saved_models/kbert-mini", "records")["mlm_perplexity"]
    """


def _scores(asked, corpus_or_records: Any) -> dict[str, float | int]:
    from kbert.config import default_max_predictions
    from kbert.pretraining.dataset import pretraining_dataset
    from kbert.pretraining.dataset_statistics import (
        BASELINE_TOKENS,
        next_sentence_labels,
        token_counts,
        unigram_baseline,
    )
    from kbert.pretraining.sources import NoDocuments, check_reading, open_source
    from kbert.pretraining.tfrecords import is_tfrecords, stored_predictions
    from kbert.training.logs import readable_logs
    from kbert.weights.load import load_pretrained

    model = load_pretrained(asked.source)
    if model.task not in _HEADS or model.config.causal:
        kind = f"a left-to-right {model.task}" if model.config.causal else f"a {model.task}"
        raise ValueError(
            "evaluate_pretraining: expected a bidirectional model with a masked-LM head (task masked_lm or "
            f"pretraining). Received: {kind} model"
        )
    tokenizer = model.pretrained.tokenizer
    if tokenizer is None:
        raise ValueError(
            f"evaluate_pretraining: expected a model with its vocabulary. Received: {asked.source} without one"
        )
    format = asked.format or "auto"
    language = asked.language or "en"
    check_reading("evaluate_pretraining", corpus_or_records, format=format, language=language)
    if is_tfrecords(corpus_or_records):
        max_predictions = stored_predictions(corpus_or_records)
    else:
        max_predictions = default_max_predictions(asked.sequence_length)
        # Once: the documents of the baseline are all but those that are scored.
        corpus_or_records = open_source(corpus_or_records, format, language)
    next_sentence = _HEADS[model.task]
    try:
        dataset = pretraining_dataset(
            corpus_or_records,
            tokenizer,
            batch_size=asked.batch_size,
            sequence_length=asked.sequence_length,
            max_predictions=max_predictions,
            held_out=asked.held_out,
            next_sentence=next_sentence,
            evaluation=True,
        )
        others = 0 if asked.held_out == 1 else asked.held_out  # at 0 all documents count
        counts = token_counts(corpus_or_records, tokenizer, BASELINE_TOKENS, held_out=others)
    except NoDocuments as error:
        raise ValueError(f"{error} To score every document, pass held_out=1 (--held-out 1).") from None
    model.compile()
    scores = readable_logs(model.evaluate(dataset, return_dict=True, verbose=0), model)
    unigram = unigram_baseline(counts, dataset)
    result = {
        "mlm_accuracy": scores["mlm_accuracy"],
        "mlm_cross_entropy": scores["mlm_cross_entropy"],
        "mlm_perplexity": scores["mlm_perplexity"],
        "unigram_accuracy": unigram["accuracy"],
        "unigram_cross_entropy": unigram["cross_entropy"],
        "masks": unigram["masks"],
        "mlm_standard_error": _standard_error(scores["mlm_accuracy"], unigram["masks"]),
    }
    if next_sentence:
        labels = next_sentence_labels(dataset)
        result |= {
            "nsp_accuracy": scores["nsp_accuracy"],
            "pairs": int(labels.sum()),
            "most_frequent_nsp": float(labels.max() / labels.sum()),
            "nsp_standard_error": _standard_error(scores["nsp_accuracy"], labels.sum()),
        }
    return result


def _standard_error(fraction: float, count: int) -> float:
    return math.sqrt(fraction * (1 - fraction) / count)
