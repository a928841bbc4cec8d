"""Scores of stored models on all held-out documents, against logits that this test weighs itself."""

import json

import keras
import numpy as np
import pytest
from helpers.run_recipe import as_flags, run_kbert
from helpers.tiny_bert import randomise, tiny_config
from helpers.tiny_corpus import make_documents, make_tokenizer, write_lines
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.pretraining import evaluate_pretraining, pretraining_dataset

pytestmark = pytest.mark.usefixtures("eagerly")
OPTIONS = {"sequence_length": 16, "batch_size": 4}


def store(path, model_class=kbert.BertPretrainer, tokenizer=None, causal=False, **options):
    tokenizer = tokenizer or make_tokenizer()
    config = tiny_config(vocabulary_size=tokenizer.vocabulary_size, causal=causal)
    model = randomise(model_class(config, **options))
    kbert.save_pretrained(model, path, tokenizer=tokenizer)
    return model


def test_the_scores_are_those_of_the_logits(tmp_path, records):
    """In batches of another size."""
    model = store(tmp_path / "model")
    scores = evaluate_pretraining(tmp_path / "model", records, sequence_length=16, batch_size=7)
    labels, losses, hits = ({"mlm_logits": [], "nsp_logits": []} for _ in range(3))
    dataset = pretraining_dataset(records, make_tokenizer(), evaluation=True, max_predictions=3, **OPTIONS)
    for inputs, batch_labels, weights in dataset:
        for name, logits in model(inputs).items():
            real = weights[name].numpy() > 0
            ids = batch_labels[name].numpy()[real]
            surprise = -keras.ops.log_softmax(logits).numpy()[real]
            labels[name].extend(ids)
            losses[name].extend(surprise[range(len(ids)), ids])
            hits[name].extend(surprise.argmin(-1) == ids)
    loss, random_next = np.mean(losses["mlm_logits"]), np.mean(labels["nsp_logits"])
    accuracies = {name: np.mean(of_head) for name, of_head in hits.items()}
    errors = {name: np.std(of_head) / np.sqrt(len(of_head)) for name, of_head in hits.items()}
    assert len(hits["nsp_logits"]) > 30
    assert scores == pytest.approx(
        {
            "mlm_accuracy": accuracies["mlm_logits"],
            "mlm_cross_entropy": loss,
            "mlm_perplexity": np.exp(loss),
            "nsp_accuracy": accuracies["nsp_logits"],
            "masks": len(hits["mlm_logits"]),
            "pairs": len(hits["nsp_logits"]),
            "most_frequent_nsp": max(random_next, 1 - random_next),
            "mlm_standard_error": errors["mlm_logits"],
            "nsp_standard_error": errors["nsp_logits"],
            "unigram_accuracy": scores["unigram_accuracy"],
            "unigram_cross_entropy": scores["unigram_cross_entropy"],
        },
        rel=1e-4,
    )
    assert 0 < scores["unigram_accuracy"] < 0.5 < scores["unigram_cross_entropy"]


def test_a_model_without_next_sentences(tmp_path):
    store(tmp_path / "model", next_sentence=False)
    scores = evaluate_pretraining(tmp_path / "model", make_documents(20), held_out=0.3, **OPTIONS)
    assert scores["masks"] > 0 and not any("nsp" in name or "pairs" in name for name in scores)


def test_what_cannot_be_scored(tmp_path, records):
    store(tmp_path / "classifier", kbert.BertClassifier)
    store(tmp_path / "left", next_sentence=False, causal=True)
    store(tmp_path / "other", tokenizer=kbert.BertTokenizer([*make_tokenizer().vocabulary, "more"]))
    model = kbert.load_pretrained(tmp_path / "other")
    kbert.save_pretrained(model, tmp_path / "without", format="huggingface")
    for file in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
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


def test_the_recipe(tmp_path, capsys):
    store(tmp_path / "model")
    write_lines(tmp_path / "corpus.txt", make_documents(60))
    flags = as_flags(source=tmp_path / "model", held_out=0.2, sequence_length=16, output=tmp_path / "s.json")
    run_kbert("evaluate-pretraining", tmp_path / "corpus.txt", *flags, "--json")
    printed = capsys.readouterr().out
    scores = json.loads(printed.splitlines()[-1])
    assert (
        f"next-sentence accuracy  {100 * scores['nsp_accuracy']:.1f} % of {scores['pairs']} (standard error" in printed
    )
    written = json.loads((tmp_path / "s.json").read_text())
    assert scores.items() <= written.items() and {"date", "versions", "settings"} <= written.keys()
