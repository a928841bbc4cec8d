"""benchmark.py: what it counts, and what it refuses."""

import functools
import json
import types

import pytest
from benchmarks import peak, text, training
from benchmarks.peak import model_products, with_gradients
from helpers.run_recipe import as_flags, run_recipe
from helpers.slow_but import slow_but
from helpers.tiny_corpus import VOCABULARY, make_documents, make_tokenizer, write_lines

import kbert
from kbert.config import BertConfig
from kbert.corpus.documents import read_documents
from kbert.corpus.write_records import write_records
from kbert.pretraining import dataset
from kbert.training.flops import inference_flops_per_token, matmul_flops, training_flops_per_token

QUICK = as_flags(size="tiny", batch_size="4", sequence_length="25", seconds="0.05", rounds="1", json=True)


@pytest.fixture(autouse=True)
def small_squares(monkeypatch):
    """The peak of products of 1024 x 1024 and 2048 x 2048 takes seconds to measure."""
    monkeypatch.setattr(peak, "matmul_peak", functools.partial(peak.matmul_peak, size=64))


def benchmark(capsys, *arguments):
    run_recipe("benchmark", *arguments, *QUICK)
    return json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.mark.usefixtures("eagerly")
def test_encoding_of_synthetic_batches_has_no_padding(capsys):
    result = benchmark(capsys, "encode")
    assert result["tokens_per_second"] == result["real_tokens_per_second"] > 0
    assert 0 < result["gflops_per_second"] and result["data"] == "synthetic" and result["peak_memory_mib"] > 0


@pytest.mark.slow  # what it writes: tests/inspection/board
def test_what_tensorboard_costs(capsys, monkeypatch):
    monkeypatch.setattr(training, "_STEPS", 2)
    result = benchmark(capsys, "board")
    assert result["ms_per_step"] > 0 and result["ms_per_step_with_tensorboard"] > 0 and result["calls"] >= 1
    assert result["overhead"] > -1 and result["processor_overhead"] > -1 and result["size"] == "tiny"


@pytest.mark.usefixtures("eagerly")
def test_encoding_of_real_batches_counts_their_padding(tmp_path, capsys):
    write_lines(tmp_path / "corpus.txt", [["a b c .", "d e .", "f g h i ."]] * 20)
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    result = benchmark(
        capsys, "encode", "--data", "real", "--corpus", tmp_path / "corpus.txt", "--vocabulary", tmp_path / "vocab.txt"
    )
    assert 0 < result["real_tokens_per_second"] < result["tokens_per_second"]


def count_steps(set_attribute):
    """From now on `fit` counts its steps without doing them, and the second dataset is the first."""
    assert text.pretraining_dataset is dataset.pretraining_dataset  # imported before the latter is replaced
    made, pretraining_dataset = [], dataset.pretraining_dataset

    def once(*arguments, **options):
        made.append(made[0] if made else pretraining_dataset(*arguments, **options))
        return made[0]

    def fit(model, data, **options):
        if isinstance(model, kbert.Pipeline):
            assert len(data) == 2 * options["batch_size"] and {type(text) for text in data} == {str}
        else:
            assert next(iter(data))[0]["token_ids"].shape == (4, 25)
        getattr(model, "model", model).optimizer.iterations.assign_add(2)
        return types.SimpleNamespace(history={"loss": [2.0]})

    set_attribute(dataset, "pretraining_dataset", once)
    set_attribute(kbert.Pipeline, "fit", fit)
    set_attribute(kbert.BertPretrainer, "fit", fit)


# That the fits train: pipelines/test_fit_on_masks.py.
@pytest.mark.slow  # test_encoding_of_real_batches_counts_their_padding
@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("steps", slow_but(("counted",), ("counted", "done")))
def test_fit_on_strings_beside_fit_by_hand(tmp_path, capsys, monkeypatch, steps):
    monkeypatch.setattr(training, "_FIT_STEPS", 2)
    if steps == "counted":
        count_steps(monkeypatch.setattr)
    write_lines(tmp_path / "corpus.txt", make_documents(9))
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    result = benchmark(capsys, "fit", "--corpus", tmp_path / "corpus.txt", "--vocabulary", tmp_path / "vocab.txt")
    assert result["pipeline.fit processor ms per step"] > 0 and result["model.fit processor ms per step"] > 0
    assert result["more than model.fit"] > -1 and result["data"] == "real"


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    directory = tmp_path_factory.mktemp("data")
    write_lines(directory / "corpus.txt", make_documents(30, sizes=(2, 5)))
    write_records(read_documents(directory / "corpus.txt"), make_tokenizer(), directory / "records", held_out=0.1)
    return directory / "records"


def test_rows_that_pairs_share(records, capsys):
    result = benchmark(capsys, "rows", "--records", records)
    assert 0 < result["rows"] < result["pairs"]
    assert 0 < result["numpy_processor_us_per_row"]
    assert 0 < result["plain_real_fraction"] < result["packed_real_fraction"] <= result["filled_real_fraction"] <= 1


@pytest.mark.usefixtures("eagerly")
@pytest.mark.slow  # the options: test_packed_rows_are_measured_by_feed; measuring: test_benchmark_peers.py
@pytest.mark.parametrize("packed", [False, True])
def test_steps_on_one_batch_and_fed_by_the_pipeline(records, monkeypatch, capsys, packed):
    monkeypatch.setattr(training, "_SETTLING", 0.0)
    result = benchmark(capsys, "feed", "--records", records, *(["--packed"] if packed else []))
    assert result["packed"] is packed and result["input_processor_fraction"] > -1
    for source in ("one_batch", "pipeline"):
        assert result[f"{source}_ms_per_step"] > 0 and result[f"{source}_processor_ms_per_step"] > 0


def test_the_input_needs_a_corpus(capsys):
    for part in ("rows", "feed", "input"):
        with pytest.raises(SystemExit, match="Expected `corpus` or `records` to take batches from. Received: neither"):
            benchmark(capsys, part)


@pytest.mark.usefixtures("eagerly")
def test_the_speeds_of_products(capsys):
    result = benchmark(capsys, "peak", "--max-predictions", 3)
    assert len(result["products_gflops_per_second"]) == 7 * 3 and min(result["products_gflops_per_second"].values()) > 0
    assert result["matmul_peak_gflops_per_second"] > 0 and "fraction_of_matmul_peak" not in result
    speeds = result["products_gflops_per_second"].values()
    assert min(speeds) <= result["model_matmul_gflops_per_second"] <= max(speeds)


def test_the_products_of_a_model_are_its_operations():
    config = BertConfig.from_size("mini", vocabulary_size=1000)
    forward = model_products(config, batch_size=3, sequence_length=24)
    assert _operations(forward) == 3 * 24 * inference_flops_per_token(config, 24)
    training = with_gradients(model_products(config, 3, 24, predictions=4))
    assert _operations(training) == pytest.approx(3 * 24 * training_flops_per_token(config, 24, 4))


def test_gradients_have_the_shapes_of_what_they_are_gradients_of():
    for product in model_products(BertConfig.from_size("tiny", vocabulary_size=50), 2, 6, predictions=3):
        _, of_left, of_right = with_gradients([product])
        assert _result(of_left) == product.left and _result(of_right) == product.right


def _operations(products):
    return sum(times * matmul_flops(*factors) for _, times, *factors in products)


def _result(product):
    """The shape of a product; its inner dimensions must agree."""
    left, right = (
        (*shape[:-2], shape[-1], shape[-2]) if is_transposed else shape
        for shape, is_transposed in zip((product.left, product.right), product.transpose, strict=True)
    )
    assert left[-1] == right[-2] and left[:-2] == right[:-2]
    return (*left[:-1], right[-1])


def test_shares_are_of_the_best_speeds(monkeypatch):
    seen = iter([1e9, 4e9, 2e9])
    monkeypatch.setattr(peak, "matmul_peak", lambda *_, **__: next(seen))
    monkeypatch.setattr(peak, "matmul_speed", lambda left, *_, **__: 1e9 * left[0])
    products = [peak.Product("a", 3, (1, 8), (8, 1)), peak.Product("b", 1, (2, 4), (4, 3))]
    fractions = peak.PeakFractions(products, "float32")
    for _ in range(3):
        fractions.measure(1.0)
    # 3 x 16 operations at 1e9, 48 at 2e9.
    found = fractions.summary(gflops_per_second=1.0)
    assert found["fraction_of_matmul_peak"] == 0.25 and found["model_matmul_gflops_per_second"] == pytest.approx(4 / 3)
    assert found["fraction_of_model_matmul"] == pytest.approx(3 / 4) and found["device"] == "CPU"


def test_packed_rows_are_measured_by_feed(capsys):
    with pytest.raises(SystemExit, match='data="real": plain rows alone are measured so'):
        benchmark(capsys, "train", "--data", "real", "--corpus", "a.txt", "--packed")


def test_real_data_must_be_named(capsys):
    with pytest.raises(SystemExit, match='data="real": expected `corpus` or `records`'):
        benchmark(capsys, "train", "--data", "real")
