"""Scores of stored models on all held-out documents, against logits that this test weighs itself."""

import json

import keras
import numpy as np
import pytest
from helpers.run_recipe import run_kbert
from helpers.tiny_bert import randomise, tiny_config
from helpers.tiny_corpus import make_documents, make_tokenizer, write_lines
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.corpus import DocumentList, write_records
from kbert.pretraining import evaluate_pretraining, pretraining_dataset, token_counts, unigram_baseline, write_tfrecords

pytestmark = pytest.mark.usefixtures("eagerly")
OPTIONS = {"sequence_length": 16, "batch_size": 4}


def store(path, model_class=kbert.BertPretrainer, tokenizer=None, causal=False, **options):
    tokenizer = tokenizer or make_tokenizer()
    config = tiny_config(vocabulary_size=tokenizer.vocabulary_size, causal=causal)
    model = randomise(model_class(config, **options))
    kbert.save_pretrained(model, path, tokenizer=tokenizer)
    return model


def test_the_scores_are_those_of_the_logits_whatever_the_batches(tmp_path, records):
    model = store(tmp_path / "model")
    found = evaluate_pretraining(tmp_path / "model", records, sequence_length=16, batch_size=23)
    log_softmax = keras.ops.log_softmax
    losses, hits, nsp_hits, nsp_labels = [], [], [], []
    for inputs, labels, weights in pretraining_dataset(
        records, make_tokenizer(), evaluation=True, max_predictions=3, sequence_length=16, batch_size=16
    ):
        outputs = model(inputs)
        real = weights["mlm_logits"].numpy() > 0
        ids = labels["mlm_logits"].numpy()[real]
        surprise = -log_softmax(outputs["mlm_logits"]).numpy()[real]
        losses.extend(surprise[range(len(ids)), ids])
        hits.extend(surprise.argmin(-1) == ids)
        real = weights["nsp_logits"].numpy() > 0
        truth = labels["nsp_logits"].numpy()[real]
        surprise = -log_softmax(outputs["nsp_logits"]).numpy()[real]
        nsp_hits.extend(surprise.argmin(-1) == truth)
        nsp_labels.extend(truth)
    assert (found["masks"], found["pairs"]) == (len(hits), len(nsp_hits)) and len(nsp_hits) > 30
    fraction, pairs = np.mean(nsp_hits), len(nsp_hits)
    assert found == pytest.approx(
        {
            "mlm_accuracy": np.mean(hits),
            "mlm_cross_entropy": np.mean(losses),
            "mlm_perplexity": np.exp(np.mean(losses)),
            "nsp_accuracy": fraction,
            "masks": len(hits),
            "pairs": pairs,
            "most_frequent_nsp": max(np.mean(nsp_labels), 1 - np.mean(nsp_labels)),
            "mlm_standard_error": np.std(hits) / np.sqrt(len(hits)),
            "nsp_standard_error": np.sqrt(fraction * (1 - fraction) / pairs),
            "unigram_accuracy": found["unigram_accuracy"],
            "unigram_cross_entropy": found["unigram_cross_entropy"],
        },
        rel=1e-4,
    )
    most_frequent = token_counts(records, make_tokenizer()).argmax()
    assert 0 < found["unigram_accuracy"] < 0.5 and most_frequent > 4


def test_a_file_is_scored_as_its_documents(tmp_path):
    store(tmp_path / "model", next_sentence=False)
    documents = make_documents(60)
    path = write_lines(tmp_path / "corpus.txt", documents)
    of_file = evaluate_pretraining(tmp_path / "model", path, held_out=0.2, **OPTIONS)
    output = tmp_path / "scores.json"
    assert of_file == evaluate_pretraining(tmp_path / "model", documents, held_out=0.2, output=output, **OPTIONS)
    of_documents = json.loads(output.read_text())["settings"]["corpus_or_records"]
    assert of_documents == {"documents": 60, "sha256": DocumentList(documents).fingerprint()}  # not their texts


def test_a_whole_file_that_the_model_was_not_trained_on(tmp_path):
    """One document, which cannot be divided; the baseline is then of its own tokens."""
    store(tmp_path / "model")
    (document,) = make_documents(1, sizes=(40,))
    path = write_lines(tmp_path / "novel.txt", [document])
    with pytest.raises(ValueError, match="Received: one document. .* To score every document, pass held_out=1"):
        evaluate_pretraining(tmp_path / "model", path, **OPTIONS)
    found = evaluate_pretraining(tmp_path / "model", path, held_out=1, **OPTIONS)
    records = write_records([document], make_tokenizer(), tmp_path / "records", held_out=0.0)
    counts = token_counts(records, make_tokenizer())
    assert counts.sum() / 10 < found["masks"] < counts.sum() / 5
    records.held_out = records.training
    dataset = pretraining_dataset(records, make_tokenizer(), evaluation=True, max_predictions=3, **OPTIONS)
    expected = unigram_baseline(counts, dataset)
    assert (found["unigram_accuracy"], found["masks"]) == (expected["accuracy"], expected["masks"])
    several = evaluate_pretraining(tmp_path / "model", make_documents(9), held_out=1, **OPTIONS)
    part = evaluate_pretraining(tmp_path / "model", make_documents(9), held_out=0.5, **OPTIONS)
    assert several["pairs"] > part["pairs"] > 0
    with pytest.raises(ValueError, match=r"`held_out` must be a number in \(0, 1\] or None. Received: 0"):
        evaluate_pretraining(tmp_path / "model", path, held_out=0)


def test_tfrecords_have_as_many_masks_as_they_were_written_with(tmp_path, records):
    store(tmp_path / "model")
    dataset = pretraining_dataset(records, make_tokenizer(), max_predictions=7, batches=6, **OPTIONS)
    write_tfrecords(dataset, tmp_path / "rows.tfrecord")
    scores = evaluate_pretraining(tmp_path / "model", tmp_path / "rows.tfrecord", held_out=0.5, **OPTIONS)
    assert 0 < scores["pairs"] < 24 and scores["masks"] >= scores["pairs"]
    scores = evaluate_pretraining(tmp_path / "model", tmp_path / "rows.tfrecord", held_out=1, **OPTIONS)
    assert scores["pairs"] == 24


def test_what_cannot_be_scored(tmp_path, records):
    store(tmp_path / "classifier", kbert.BertClassifier)
    store(tmp_path / "left", next_sentence=False, causal=True)
    store(tmp_path / "other", tokenizer=kbert.BertTokenizer([*make_tokenizer().vocabulary, "more"]))
    model = kbert.load_pretrained(tmp_path / "other")
    kbert.save_pretrained(model, tmp_path / "without")
    for file in ("vocab.txt", "tokenizer.json", "tokenizer_config.json", "kbert.json"):
        (tmp_path / "without" / file).unlink(missing_ok=True)
    wrong_inputs(
        lambda name: evaluate_pretraining(tmp_path / name, records, **OPTIONS),
        ("classifier", "expected a bidirectional model with a masked-LM head .*a classification model"),
        ("left", "Received: a left-to-right masked_lm model"),
        ("other", "vocabular"),
        ("without", "expected a model with its vocabulary"),
    )
    store(tmp_path / "model")
    with pytest.raises(ValueError, match="records have held-out documents of their own"):
        evaluate_pretraining(tmp_path / "model", records, held_out=0.1, **OPTIONS)
    with pytest.raises(ValueError, match="`source` must be a path"):
        evaluate_pretraining(None, records)
    with pytest.raises(
        ValueError, match="^evaluate_pretraining: `corpus_or_records` must be a list, each item a path, .*3"
    ):
        evaluate_pretraining(tmp_path / "model", 3)
    with pytest.raises(
        TypeError, match="^evaluate_pretraining: `corpus_or_records` must be path.* Received: list_iter"
    ):
        evaluate_pretraining(tmp_path / "model", iter([["a"]]))


@pytest.mark.slow  # test_the_scores_are_those_of_the_logits_whatever_the_batches
def test_the_recipe(tmp_path, capsys):
    store(tmp_path / "model")
    write_lines(tmp_path / "corpus.txt", make_documents(60))
    flags = (
        "--source",
        tmp_path / "model",
        "--held-out",
        0.2,
        "--sequence-length",
        16,
        "--output",
        tmp_path / "s.json",
    )
    run_kbert("evaluate-pretraining", tmp_path / "corpus.txt", *flags, "--json")
    printed = capsys.readouterr().out
    scores = json.loads(printed.splitlines()[-1])
    assert (
        f"next-sentence accuracy  {100 * scores['nsp_accuracy']:.1f} % of {scores['pairs']} (standard error" in printed
    )
    written = json.loads((tmp_path / "s.json").read_text())
    assert scores.items() <= written.items() and {"date", "versions", "settings"} <= written.keys()
