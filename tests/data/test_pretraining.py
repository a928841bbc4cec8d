"""Batches of pre-training: their structure, and that batch n is a function of (seed, n) and nothing else."""

import hashlib
import importlib.util
import itertools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.run_python import run_python
from helpers.tiny_corpus import VOCABULARY, make_documents, make_tokenizer, write_lines

from kbert.data.corpus import read_documents
from kbert.data.pool import is_held_out
from kbert.data.pretraining import pretraining_dataset
from kbert.data.records import Records
from kbert.data.write_records import write_records

B, S, P = 5, 23, 4
HELD_OUT = 0.2


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Three files of documents; enough for several pools of 50 sentences an epoch."""
    directory = tmp_path_factory.mktemp("corpus")
    for i in range(3):
        write_lines(directory / f"{i}.txt", make_documents(25, seed=i))
    return str(directory / "*.txt")


@pytest.fixture(scope="module")
def records(corpus, tokenizer, tmp_path_factory):
    directory = tmp_path_factory.mktemp("data") / "records"
    write_records(read_documents(corpus), tokenizer, directory, shard_tokens=700, held_out=HELD_OUT)
    return directory


@pytest.fixture(scope="module", params=["text", "records"])
def source(request):
    return request.getfixturevalue("corpus" if request.param == "text" else "records")


@pytest.fixture(scope="module")
def straight(source, tokenizer):
    """The first 110 batches of seed 0: more than two epochs."""
    return batches(dataset_of(source, tokenizer), 110)


@pytest.fixture(scope="module")
def evaluation(source, tokenizer):
    return dataset_of(source, tokenizer, evaluation=True)


def dataset_of(source, tokenizer, **arguments):
    defaults = {"batch_size": B, "sequence_length": S, "predictions": P, "held_out": HELD_OUT, "pool_sentences": 50}
    return pretraining_dataset(source, tokenizer, **defaults | arguments)


def batches(dataset, number=None):
    return list((dataset if number is None else dataset.take(number)).as_numpy_iterator())


def assert_equal(some, others):
    assert len(some) == len(others)
    for one, other in zip(some, others, strict=True):
        keras.tree.map_structure(np.testing.assert_array_equal, one, other)


def rows(some):
    """Each row of some batches as bytes of what the model is shown and asked."""
    return [
        (inputs["token_ids"][i].tobytes(), inputs["mask_positions"][i].tobytes(), labels["mlm_logits"][i].tobytes())
        for inputs, labels, _ in some
        for i in range(len(inputs["token_ids"]))
    ]


def originals(some):
    """Rows of token ids with the masks undone, [rows, S]."""
    restored = []
    for inputs, labels, weights in some:
        token_ids = inputs["token_ids"].copy()
        for row, positions, ids, weight in zip(
            token_ids, inputs["mask_positions"], labels["mlm_logits"], weights["mlm_logits"], strict=True
        ):
            row[positions[weight > 0]] = ids[weight > 0]
        restored.append(token_ids)
    return np.concatenate(restored)


def test_structure(evaluation):
    inputs, labels, weights = evaluation.element_spec
    whole, slots = tf.TensorShape([B, S]), tf.TensorShape([B, P])
    assert {name: (spec.shape, spec.dtype) for name, spec in inputs.items()} == {
        "token_ids": (whole, tf.int32),
        "segment_ids": (whole, tf.int32),
        "padding_mask": (whole, tf.bool),
        "mask_positions": (slots, tf.int32),
    }
    assert {name: (spec.shape, spec.dtype) for name, spec in labels.items()} == {
        "mlm_logits": (slots, tf.int32),
        "nsp_logits": (tf.TensorShape([B]), tf.int32),
    }
    assert {name: (spec.shape, spec.dtype) for name, spec in weights.items()} == {
        "mlm_logits": (slots, tf.float32),
        "nsp_logits": (tf.TensorShape([B]), tf.float32),
    }


def test_rows_are_packed_pairs(straight, tokenizer):
    some = straight[:40]
    token_ids = originals(some)
    segments, padding, labels = (
        np.concatenate([part[name] for part in parts])
        for parts, name in (
            ([b[0] for b in some], "segment_ids"),
            ([b[0] for b in some], "padding_mask"),
            ([b[1] for b in some], "nsp_logits"),
        )
    )
    assert set(labels) == {0, 1} and 0.5 < labels.mean() < 0.95  # many documents of one sentence here
    assert (token_ids[:, 0] == tokenizer.cls_id).all()
    assert ((token_ids == tokenizer.sep_id).sum(1) == 2).all()
    assert ((token_ids == tokenizer.pad_id) == ~padding).all()
    for row, segment, length in zip(token_ids, segments, padding.sum(1), strict=True):
        first, last = np.flatnonzero(row == tokenizer.sep_id)
        assert last == length - 1 and 1 < first < last - 1
        assert segment.tolist() == [0] * (first + 1) + [1] * (last - first) + [0] * (S - length)


def test_both_segments_are_text_of_the_corpus(straight, corpus, tokenizer):
    texts = [tokenizer(tf.constant(document)).flat_values.numpy() for document in read_documents(corpus)]
    texts = [" ".join(map(str, ids)) + " " for ids in texts]
    for row in originals(straight[:10]):
        first, last = np.flatnonzero(row == tokenizer.sep_id)
        for segment in (row[1:first], row[first + 1 : last]):
            assert any(" ".join(map(str, segment)) + " " in text for text in texts)


def test_next_sentence_label(tokenizer, tmp_path):
    """0 = B really follows A: with words that count upwards, it can be read off."""
    documents = [[" ".join("abcdefghij"[i % 10] + "bcd"[j] for i in range(3)) for j in range(3)] for _ in range(40)]
    corpus = write_lines(tmp_path / "a.txt", documents)
    some = batches(dataset_of(corpus, tokenizer, held_out=0.0, short_sequence_rate=0.0), 10)
    labels = np.concatenate([labels["nsp_logits"] for _, labels, _ in some])
    ends, begins = [], []
    for row in originals(some):
        first = np.flatnonzero(row == tokenizer.sep_id)[0]
        ends.append(VOCABULARY[row[first - 1]][-1])
        begins.append(VOCABULARY[row[first + 2]][-1])
    follows = np.array([ord(b) - ord(e) == 1 for e, b in zip(ends, begins, strict=True)])
    assert follows[labels == 0].all() and not follows[labels == 1].all()


def test_another_seed_gives_other_batches(source, tokenizer, straight):
    other = batches(dataset_of(source, tokenizer, seed=4), 12)
    assert len(set(rows(straight[:12])) & set(rows(other))) < 3


@pytest.mark.parametrize("step", [7, 68])
def test_starting_at_step_n_gives_exactly_the_batches_from_n_on(source, tokenizer, straight, step):
    """Over ends of pools, shards and epochs."""
    assert_equal(batches(dataset_of(source, tokenizer, start_step=step), 110 - step), straight[step:])


def test_batch_size_changes_no_row(source, tokenizer, straight):
    """What a row holds does not depend on the batch it stands in."""
    assert rows(batches(dataset_of(source, tokenizer, batch_size=2 * B), 20)) == rows(straight[:40])


PRINT_HASHES = """
import hashlib, json, pathlib, sys
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2)
from helpers.tiny_corpus import make_tokenizer
from kbert.data.pretraining import pretraining_dataset

source, batch_size, sequence_length, predictions, held_out, start_step = json.loads(sys.argv[1])
dataset = pretraining_dataset(
    source, make_tokenizer(), batch_size=batch_size, sequence_length=sequence_length, predictions=predictions,
    held_out=held_out, pool_sentences=50, start_step=start_step).take(3)
hashes = [
    [hashlib.sha256(part[name].tobytes()).hexdigest() for part in batch for name in sorted(part)]
    for batch in dataset.as_numpy_iterator()]
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
parts = [
    [part.numpy().tolist() for part in strategy.experimental_local_results(inputs["token_ids"])]
    for inputs, *_ in strategy.experimental_distribute_dataset(dataset)]
print(json.dumps({"hashes": hashes, "parts": parts}))
"""


def test_same_batches_in_another_process_and_on_two_replicas(source, records, straight):
    """With Keras on JAX too: the pipeline is TensorFlow either way."""
    backend = "jax" if source == records and importlib.util.find_spec("jax") else "tensorflow"
    found = run_python(PRINT_HASHES, json.dumps([str(source), B, S, P, HELD_OUT, 11]), backend=backend)
    assert found["hashes"] == [
        [hashlib.sha256(part[name].tobytes()).hexdigest() for part in batch for name in sorted(part)]
        for batch in straight[11:14]
    ]
    for parts, (inputs, _, _) in zip(found["parts"], straight[11:14], strict=True):
        assert sorted(map(len, parts)) == [B // 2, B - B // 2]
        np.testing.assert_array_equal(np.concatenate(parts), inputs["token_ids"])


def test_epochs_draw_anew_and_visit_every_document(source, tokenizer, straight):
    """An epoch's end is no end of a batch; the next epoch has the same documents, but not the same rows."""
    first = batches(dataset_of(source, tokenizer, epochs=1))
    assert_equal(straight[: len(first)], first)
    assert 40 < len(first) < 54
    second = straight[len(first) + 1 : 2 * len(first)]
    assert len(set(rows(first)) & set(rows(second))) < 0.1 * len(rows(second))

    def frequencies(some):
        return np.bincount(originals(some).ravel(), minlength=len(VOCABULARY))[6:]

    assert np.corrcoef(frequencies(first), frequencies(second))[0, 1] > 0.9
    assert batches(dataset_of(source, tokenizer, epochs=1, start_step=len(first))) == []


def test_an_epoch_is_shuffled(source, tokenizer, straight, corpus):
    """Neighbouring rows are seldom of one document."""
    texts = [" ".join(map(str, tokenizer(tf.constant(d)).flat_values.numpy())) + " " for d in read_documents(corpus)]
    owners = []
    for row in originals(straight[:20]):
        first = np.flatnonzero(row == tokenizer.sep_id)[0]
        if first > 5:  # long enough to be told by
            segment = " ".join(map(str, row[1:first])) + " "
            owners.append(next(i for i, text in enumerate(texts) if segment in text))
    assert len(owners) > 40
    assert np.mean([a == b for a, b in itertools.pairwise(owners)]) < 0.3


def test_held_out_documents_are_never_trained_on(corpus, tokenizer, straight, evaluation):
    documents = list(read_documents(corpus))
    assert 5 < sum(is_held_out(document, HELD_OUT) for document in documents) < 30

    def grams(some):
        found = set()
        for row in originals(some):
            first, last = np.flatnonzero(row == tokenizer.sep_id)
            for segment in (row[1:first], row[first + 1 : last]):
                found |= {tuple(segment[i : i + 8].tolist()) for i in range(len(segment) - 7)}
        return found

    training, held_out = grams(straight), grams(batches(evaluation))
    assert len(training) > 500 and len(held_out) > 100 and not training & held_out


def test_evaluation_is_fixed_ordered_finite_and_whole(source, tokenizer, evaluation):
    first = batches(evaluation)
    assert_equal(first, batches(evaluation))
    assert len(evaluation) == len(first)
    assert_equal(first[:2], batches(dataset_of(source, tokenizer, evaluation=True, seed=2, batches=2)))
    # Filled up to whole batches: every row once, the filling without weight.
    weights = np.concatenate([weights["nsp_logits"] for *_, weights in first])
    masks = np.concatenate([weights["mlm_logits"] for *_, weights in first])
    number = int(weights.sum())
    assert 0 < number <= len(weights) < number + B and (np.sort(weights)[::-1] == weights).all()
    assert (masks[:number].sum(1) >= 1).all() and (masks[number:] == 0).all()


def test_without_next_sentence(corpus, tokenizer):
    some = batches(dataset_of(corpus, tokenizer, next_sentence=False), 20)
    assert all(set(labels) == set(weights) == {"mlm_logits"} for _, labels, weights in some)
    token_ids = originals(some)
    assert ((token_ids == tokenizer.sep_id).sum(1) == 1).all()
    assert all((inputs["segment_ids"] == 0).all() for inputs, _, _ in some)
    assert (np.concatenate([inputs["padding_mask"] for inputs, _, _ in some]).sum(1) == S).mean() > 0.4


def test_masking_options(corpus, tokenizer):
    options = {"mask_rate": 0.3, "mask_share": 0.0, "keep_share": 1.0, "random_share": 0.0, "predictions": 7}
    for inputs, _, weights in batches(dataset_of(corpus, tokenizer, **options), 5):
        lengths = inputs["padding_mask"].sum(1)
        assert weights["mlm_logits"].sum(1).tolist() == np.clip(np.round(lengths * 0.3), 1, 7).tolist()
        assert not (inputs["token_ids"] == tokenizer.mask_id).any()


def test_whole_words(corpus, tokenizer):
    continuation = np.array([token.startswith("##") for token in VOCABULARY])
    some = batches(dataset_of(corpus, tokenizer, whole_word=True, predictions=8), 10)
    split = 0
    for (inputs, _, weights), token_ids in zip(some, originals(some).reshape(10, B, S), strict=True):
        for row, positions, weight in zip(token_ids, inputs["mask_positions"], weights["mlm_logits"], strict=True):
            chosen = set(positions[weight > 0].tolist())
            for position in chosen:
                if continuation[row[position]] and row[position - 1] != tokenizer.sep_id and position > 1:
                    split += position - 1 not in chosen
    assert split == 0


def test_spans(records, tokenizer):
    """A function of the token ids marks full stops and what precedes them as spans: masked together or not at all."""
    stop = VOCABULARY.index(".")

    def spans(token_ids):
        def mark(row):
            is_end = row == stop
            return tf.cast(is_end | tf.concat([is_end[1:], [False]], 0), tf.int32)

        return tf.map_fn(mark, token_ids, fn_output_signature=tf.RaggedTensorSpec([None], tf.int32))

    together = alone = 0
    some = batches(dataset_of(records, tokenizer, spans=spans, predictions=8), 20)
    for (inputs, _, weights), token_ids in zip(some, originals(some).reshape(20, B, S), strict=True):
        assert set(inputs) == {"token_ids", "segment_ids", "padding_mask", "mask_positions"}
        for row, positions, weight in zip(token_ids, inputs["mask_positions"], weights["mlm_logits"], strict=True):
            chosen = set(positions[weight > 0].tolist())
            for place in np.flatnonzero(row == stop):
                if place > 1 and row[place - 1] != tokenizer.sep_id:
                    pair = {int(place) - 1, int(place)}
                    together += pair <= chosen
                    alone += len(pair & chosen) == 1
    assert together > 5 and alone == 0


@pytest.mark.parametrize("next_sentence", [True, False])
def test_fit_evaluate(records, tokenizer, next_sentence):
    from kbert.config import BertConfig
    from kbert.models.pretrainer import BertPretrainer
    from kbert.optim.pretraining import pretraining_losses

    config = BertConfig(
        vocabulary_size=len(VOCABULARY), num_layers=1, hidden_dim=12, num_heads=2, intermediate_dim=20,
        max_sequence_length=S,
    )  # fmt: skip
    model = BertPretrainer(config, next_sentence=next_sentence)
    model.compile("adam", pretraining_losses(next_sentence))
    if next_sentence:
        model.fit(dataset_of(records, tokenizer), steps_per_epoch=3, epochs=2, shuffle=False, verbose=0)
    evaluation = dataset_of(records, tokenizer, next_sentence=next_sentence, evaluation=True)
    loss = model.evaluate(evaluation, verbose=0, return_dict=True)["loss"]
    assert 2 < loss < 8  # near that of saying nothing: log(58), and log(2)


def test_bad_arguments(corpus, records, tokenizer, tmp_path):
    cases = [
        ({"batch_size": 0}, "`batch_size` must be at least 1"),
        ({"start_step": -1}, "`start_step` must be at least 0"),
        ({"sequence_length": 4}, "`sequence_length` must be at least 5"),
        ({"held_out": 1.0}, "`held_out` must be in"),
        ({"held_out": 0.0, "evaluation": True}, "held_out=0"),
        ({"held_out": 1e-9, "evaluation": True}, "No document is held out"),
        ({"mask_rate": 0.0}, "mask_rate"),
        ({"format": "csv"}, "Received: 'csv'"),
    ]
    for arguments, message in cases:
        with pytest.raises(ValueError, match=message):
            dataset_of(corpus, tokenizer, **arguments)
    with pytest.raises(ValueError, match="No file matches"):
        dataset_of(str(tmp_path / "none"), tokenizer)
    with pytest.raises(ValueError, match="is a directory"):
        dataset_of(tmp_path, tokenizer)
    from kbert.text.tokenizer import BertTokenizer

    with pytest.raises(ValueError, match="another vocabulary of the same size"):
        dataset_of(records, BertTokenizer([*VOCABULARY[:-2], VOCABULARY[-1], VOCABULARY[-2]]))
    with pytest.raises(ValueError, match="a vocabulary of 59 tokens"):
        dataset_of(records, BertTokenizer([*VOCABULARY, "more"]))
    with pytest.raises(ValueError, match="lowercase=True, received False"):
        dataset_of(records, BertTokenizer(VOCABULARY, lowercase=False))


def test_documents_of_one_sentence_and_no_tokens(tokenizer, tmp_path):
    corpus = write_lines(tmp_path / "a.txt", [["a b c ."], ["\x00"], ["\x00", "d e ."], ["f"]] * 5)
    some = batches(dataset_of(corpus, tokenizer, held_out=0.0), 8)
    assert all((labels["nsp_logits"] == 1).all() for _, labels, _ in some)
    assert_equal(some[4:], batches(dataset_of(corpus, tokenizer, held_out=0.0, start_step=4), 4))


def test_real_text(shared_data):
    """Wikipedia and a novel with BERT's own vocabulary: the shares that the paper's procedure gives."""
    from kbert.text.tokenizer import BertTokenizer

    tokenizer = BertTokenizer(shared_data / "vocab" / "bert-base-uncased" / "vocab.txt")
    source = shared_data / "wikipedia" / "wiki-00005-of-00020.gz"
    from kbert.data.report import pipeline_report

    report = pipeline_report(pretraining_dataset(source, tokenizer, batch_size=64), tokenizer, batches=60)
    assert 0.5 < report["random_next_share"] < 0.56
    assert 17 < report["masks_per_sequence"] < 19 and report["most_masks"] == 19
    assert report["padding_share"] < 0.1 and report["unknown_share"] < 0.005
    for name, share in (("mask_share", 0.8), ("keep_share", 0.1), ("random_share", 0.1)):
        assert abs(report[name] - share) < 0.01


def test_records_are_read_with_their_own_tokenizer(records):
    opened = Records(records)
    assert len(batches(dataset_of(records, opened.tokenizer()), 2)) == 2
