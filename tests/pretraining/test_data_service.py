"""Batches from a tf.data service are those that the trainer would make itself."""

import socket

import numpy as np
import pytest
from helpers.pretraining_batches import B, P, S

import kbert
from kbert.corpus.records import Records
from kbert.pretraining.data_service import DataService
from kbert.pretraining.dataset import pretraining_dataset

SETTINGS = {"batch_size": B, "sequence_length": S, "max_predictions": P, "seed": 3}
PACKED = {"packed": True, "sequence_length": 64, "max_predictions": 10}


@pytest.mark.parametrize(
    "rows, start_step",
    [
        pytest.param({}, 0, marks=pytest.mark.slow),
        ({}, 30),
        # That rows are packed alike in a graph: test_packed_rows.py, test_limits_and_number_of_rows.
        pytest.param(PACKED, 30, marks=pytest.mark.slow),
    ],
)
def test_the_batches_of_a_service_are_the_trainers_own(records, tokenizer, rows, start_step):
    service = DataService(host="localhost")
    settings = {**SETTINGS, **rows, "start_step": start_step, "batches": 5}
    own = pretraining_dataset(records, tokenizer, **settings)
    served = pretraining_dataset(records, tokenizer, **settings, data_service=service.address)
    assert served.element_spec == own.element_spec
    number = 0
    for expected, found in zip(own.as_numpy_iterator(), served.as_numpy_iterator(), strict=True):
        for one, other in zip(expected, found, strict=True):
            for name in one:
                np.testing.assert_array_equal(other[name], one[name], err_msg=name)
        number += 1
    assert number == 5


@pytest.mark.slow  # the batches are equal: the test above
def test_pretraining_from_a_service_is_the_trainers_own(records):
    service = DataService(host="localhost")
    settings = {
        "size": "tiny",
        "steps": 2,
        "batch_size": 4,
        "sequence_length": 16,
        "max_predictions": 2,
        "dropout": 0.0,
        "packed": False,
    }
    settings |= {"dropout": 0.0, "evaluation_batches": 1, "checkpoint_every": 2, "log_every": 1}
    own, served = (kbert.pretrain(records, **settings, data_service=address) for address in (None, service.address))
    for expected, found in zip(own.history, served.history, strict=True):
        assert found["loss"] == pytest.approx(expected["loss"], rel=1e-6)


def test_records_are_the_same_in_graph(records):
    plain, in_graph = Records(records), Records(records, in_graph=True)
    for number in range(len(plain.training)):
        for expected, found in zip(plain.pool(number), in_graph.pool(number), strict=True):
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(in_graph.index(number).sentence_lengths, plain.index(number).sentence_lengths)


def test_what_a_service_cannot_do(records, corpus, tokenizer):
    with pytest.raises(ValueError, match="as \"host:port\". Received: 'localhost'"):
        pretraining_dataset(records, tokenizer, **SETTINGS, data_service="localhost")
    with pytest.raises(ValueError, match="makes batches of records. Received"):
        pretraining_dataset(corpus, tokenizer, **SETTINGS, data_service="localhost:1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RuntimeError, match=f"expected to listen on ports {port} and {port + 1}"):
            DataService(port)
    with socket.socket() as silent:  # a port that nobody listens on, nor can begin to
        silent.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ConnectionError, match=f"data service .* at {address}"):
            pretraining_dataset(records, tokenizer, **SETTINGS, data_service=address)
