"""A small corpus of pre-training, and its batches taken apart."""

import keras
import numpy as np

from helpers.tiny_corpus import make_documents, make_tokenizer, write_lines
from kbert.corpus.corpus_files import is_tfrecords
from kbert.corpus.write_records import write_records
from kbert.pretraining.dataset import pretraining_dataset

B, S, P = 5, 23, 4
HELD_OUT = 0.2


def write_corpus(directory):
    """Three files of documents, enough for several pools of 50 sentences an epoch; returns their pattern."""
    for i in range(3):
        write_lines(directory / f"{i}.txt", make_documents(25, seed=i))
    return str(directory / "*.txt")


def records_of(documents, directory, **options):
    """Documents as records in a directory, with a fifth held out."""
    return write_records(documents, make_tokenizer(), directory, **{"held_out": HELD_OUT} | options)


def dataset_of(source, tokenizer, **arguments):
    defaults = {"batch_size": B, "sequence_length": S, "max_predictions": P}
    if is_tfrecords(source):
        defaults |= {"held_out": HELD_OUT}
    return pretraining_dataset(source, tokenizer, **defaults | arguments)


def batches(dataset, number=None):
    return list((dataset if number is None else dataset.take(number)).as_numpy_iterator())


def assert_equal(some, others):
    assert len(some) == len(others)
    for one, other in zip(some, others, strict=True):
        keras.tree.map_structure(np.testing.assert_array_equal, one, other)


def columns(some):
    """Batches as one: (inputs, labels, weights), whose columns have all the rows."""
    return keras.tree.map_structure(lambda *parts: np.concatenate(parts), *some)


def first_rows(some, begin, end):
    """Rows `begin` to `end` - 1 of batches, as `columns` has them."""
    return keras.tree.map_structure(lambda column: column[begin:end], columns(some))


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


def examples(some):
    """Every pair of some batches, plain or packed: (token ids, segment ids, [(mask's position, id)], label)."""
    found = []
    for inputs, labels, weights in some:
        for row in range(len(inputs["token_ids"])):
            parts = inputs["part_ids"][row] if "part_ids" in inputs else inputs["padding_mask"][row].astype(int)
            chosen = weights["mlm_logits"][row] > 0
            masks = list(zip(inputs["mask_positions"][row][chosen], labels["mlm_logits"][row][chosen], strict=True))
            nsp = (
                [np.atleast_1d(kind["nsp_logits"][row]) for kind in (labels, weights)]
                if "nsp_logits" in labels
                else None
            )
            for part in range(1, parts.max() + 1):
                [places] = np.nonzero(parts == part)
                begin, end = places[0], places[-1] + 1
                assert end - begin == len(places)
                if "position_ids" in inputs:
                    assert inputs["position_ids"][row, begin:end].tolist() == list(range(len(places)))
                if nsp is not None and chosen.any():  # else the row fills up a batch
                    assert nsp[1][part - 1] == 1
                found.append(
                    (
                        inputs["token_ids"][row, begin:end].tobytes(),
                        inputs["segment_ids"][row, begin:end].tobytes(),
                        tuple((int(place - begin), int(label)) for place, label in masks if begin <= place < end),
                        None if nsp is None else int(nsp[0][part - 1]),
                    )
                )
            if nsp is not None:
                assert not nsp[1][parts.max() :].any() and not nsp[0][parts.max() :].any()
    return found
