"""How well a stored model predicts masked tokens and next sentences of held-out text."""

import datetime
import math
from typing import Annotated

from kbert.aliases import ExampleData, PathLike
from kbert.checks import check_output_file
from kbert.files import write_json
from kbert.options import NOT_RECORDED, Count, NonzeroFraction, Precision, checked, record
from kbert.versions import versions

_HEADS = {"masked_lm": False, "pretraining": True}  # task → whether it predicts next sentences


@checked
def evaluate_pretraining(
    source: PathLike,
    corpus_or_records: list[PathLike] | ExampleData,
    *,
    held_out: NonzeroFraction | None = None,
    sequence_length: Count = 128,
    batch_size: Count = 32,
    precision: Precision = "auto",
    output: Annotated[PathLike | None, NOT_RECORDED] = None,
    overwrite: Annotated[bool, NOT_RECORDED] = False,
) -> dict[str, float | int]:
    """Scores how well a stored model predicts masked tokens and next sentences of held-out text.

    All held-out documents of a corpus are scored, once, with the same pairs and masks for every model that has the same
    vocabulary, also of another library. `kbert.pretrain` measures a sample of them while it trains.

    Args:
        source: of a model with a masked-LM head, as for `kbert.load_pretrained`.
        corpus_or_records: paths of text, documents in memory, the directory of records or paths of TFRecords, as for
            `kbert.pretrain`; records must have the vocabulary of the model. Text is written to temporary records.
        held_out: of text, the fraction of documents that are scored: 0.01 by default, as in `kbert.pretrain`. 1 scores
            the whole corpus, such as a file that the model was not trained on.
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

    from kbert.config import default_max_predictions
    from kbert.corpus.corpus_files import is_tfrecords
    from kbert.corpus.held_out import HELD_OUT
    from kbert.corpus.records_manifest import is_records
    from kbert.pretraining.dataset import pretraining_dataset
    from kbert.pretraining.dataset_statistics import (
        BASELINE_TOKENS,
        next_sentence_labels,
        token_counts,
        unigram_baseline,
    )
    from kbert.pretraining.run.source import corpus_source, records_place
    from kbert.pretraining.tfrecords import stored_predictions
    from kbert.training.hardware import choose_hardware
    from kbert.training.logs import readable_logs
    from kbert.training.made_by import identify_source

    settings = record(evaluate_pretraining, locals())
    if output is not None:
        output = check_output_file(output, overwrite, (".json",))
    corpus = corpus_source(corpus_or_records, "evaluate_pretraining")
    settings["corpus_or_records"] = identify_source(corpus)
    with choose_hardware("one", precision).scope(), records_place(None) as place:
        model, tokenizer = _load(source)
        max_predictions = default_max_predictions(sequence_length)
        if is_tfrecords(corpus):
            max_predictions = stored_predictions(corpus)
        elif not is_records(corpus):
            corpus = _text_records(corpus, tokenizer, place, HELD_OUT if held_out is None else held_out)
            held_out = None
        dataset = pretraining_dataset(
            corpus,
            tokenizer,
            batch_size=batch_size,
            sequence_length=sequence_length,
            max_predictions=max_predictions,
            held_out=held_out,
            next_sentence=_HEADS[model.task],
            evaluation=True,
        )
        others = 0 if held_out == 1 else held_out  # at 0 all rows count
        counts = token_counts(corpus, tokenizer, BASELINE_TOKENS, held_out=others)
        model.compile()
        measured = readable_logs(model.evaluate(dataset, return_dict=True, verbose=0), model)
    unigram = unigram_baseline(counts, dataset)
    scores = {
        "mlm_accuracy": measured["mlm_accuracy"],
        "mlm_cross_entropy": measured["mlm_cross_entropy"],
        "mlm_perplexity": measured["mlm_perplexity"],
        "unigram_accuracy": unigram["accuracy"],
        "unigram_cross_entropy": unigram["cross_entropy"],
        "masks": unigram["masks"],
        "mlm_standard_error": _standard_error(measured["mlm_accuracy"], unigram["masks"]),
    }
    if _HEADS[model.task]:
        labels = next_sentence_labels(dataset)
        scores |= {
            "nsp_accuracy": measured["nsp_accuracy"],
            "pairs": int(labels.sum()),
            "most_frequent_nsp": float(labels.max() / labels.sum()),
            "nsp_standard_error": _standard_error(measured["nsp_accuracy"], labels.sum()),
        }
    if output is not None:
        date = datetime.date.today().isoformat()
        write_json(output, {**scores, "settings": settings, "date": date, "versions": versions()})
    return scores


def _load(source):
    """A model with a masked-LM head, and its tokenizer."""
    from kbert.weights.load import load_pretrained  # not above: it loads TensorFlow

    model = load_pretrained(source)
    if model.task not in _HEADS or model.config.causal:
        kind = f"a left-to-right {model.task}" if model.config.causal else f"a {model.task}"
        raise ValueError(
            "evaluate_pretraining: expected a bidirectional model with a masked-LM head (task masked_lm or "
            f"pretraining). Received: {kind} model"
        )
    if model.pretrained.tokenizer is None:
        raise ValueError(f"evaluate_pretraining: expected a model with its vocabulary. Received: {source} without one")
    return model, model.pretrained.tokenizer


def _text_records(text, tokenizer, place, held_out):
    """Records of text; where all of it is scored, their training documents count as held out, too."""
    from kbert.corpus.corpus_files import find_files  # not above: they load TensorFlow
    from kbert.corpus.documents import DocumentList
    from kbert.corpus.held_out import NoDocuments
    from kbert.corpus.text_records import write_text_records

    text = text if isinstance(text, DocumentList) else find_files(text)
    try:
        records = write_text_records(text, tokenizer, place, held_out=0.0 if held_out == 1 else held_out)
    except NoDocuments as error:
        raise ValueError(f"{error} To score every document, pass held_out=1 (--held-out 1).") from None
    if held_out == 1:
        records.held_out = records.training
    return records


def _standard_error(fraction: float, count: int) -> float:
    return math.sqrt(fraction * (1 - fraction) / count)
