"""The callback of every run: curves, what is sampled, settings, resuming, plain `fit`, profiles."""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import tiny_pretraining as tiny
from helpers.at_step import Killed, killed_at
from helpers.batches import choice_batch, plain_batch, pretraining_batch
from helpers.event_files import read_events, read_scalars, tags_of
from helpers.stored_models import make_model
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

from kbert.inspection import TensorBoard
from kbert.inspection.board.samples import Sampler
from kbert.inspection.board.scalar_tags import scalar_tag
from kbert.inspection.board.summaries import session_start
from kbert.inspection.board.tensor_board import profiled_steps
from kbert.training.flops import training_flops_per_token

BASELINE = {"mlm_accuracy": 0.25, "mlm_loss": 3.0}
REAL = 0.75  # of the tokens


PEAK = 1e12


@pytest.fixture(autouse=True, scope="module")
def known_peak():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kbert.inspection.board.tensor_board.device_peak", lambda model: PEAK)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    output = tmp_path_factory.mktemp("run")
    batch = next(iter(tiny.make_dataset(500)))
    board = TensorBoard(output / "logs", settings={"seed": 7}, baseline=BASELINE, batch=batch, time_fraction=1.0)
    model = tiny.model()
    scoring = [tiny.held_out(model, tiny.make_dataset(500), 2)]
    options = {"window": 3, "scoring": scoring, "real_tokens": REAL * tiny.B * tiny.S}
    history = tiny.train(model, tiny.make_dataset, 7, output, callbacks=[board], **options)
    return output / "logs", history


def test_curves_are_the_history(run):
    logs, history = run
    found = read_scalars(logs)
    both = ("loss", "mlm_loss", "nsp_loss", "mlm_accuracy", "mlm_perplexity", "mlm_cross_entropy", "nsp_accuracy")
    train = ("learning_rate", "gradient_norm", "tokens_per_second", "real_tokens_per_second", "steps_per_second")
    curves = [("train", name, name) for name in both + train] + [("validation", name, f"val_{name}") for name in both]
    for which, name, field in curves:
        expected = [(record["step"], pytest.approx(record[field], rel=1e-6)) for record in history]
        assert found[which, scalar_tag(name)] == expected
    assert [step for step, _ in found["train", "loss/loss"]] == [3, 6, 7]
    assert {tag for which, tag in found if which == "validation"} == {scalar_tag(name) for name in both}


def test_tensorboard_forgets_no_step(run):
    """A run in several parts has a file for each, and TensorBoard forgets what comes after the step that one names."""
    for which, steps in (("train", [3, 6, 7]), ("validation", [3, 6, 7]), ("baseline", [0, 3, 6, 7])):
        read = EventAccumulator(str(run[0] / which)).Reload()
        assert [event.step for event in read.Tensors("loss/mlm_loss")] == steps


def test_speed_is_a_share_of_the_peak_and_of_the_tokens(run):
    logs, history = run
    found = read_scalars(logs)
    assert [value for _, value in found["train", "speed/real_token_fraction"]] == [0.75] * 3
    flops = tiny.B * tiny.S * training_flops_per_token(tiny.config(), tiny.S, tiny.P)
    speeds = [record["steps_per_second"] for record in history]
    fractions = [value for _, value in found["train", "speed/fraction_of_peak"]]
    assert fractions == pytest.approx([flops * speed / PEAK for speed in speeds])
    assert all(0.01 < value < 1000 for _, value in found["train", "speed/peak_memory_gib"])
    assert not any("flops_per_second" in record for record in history)
    for record in history:
        assert record["real_tokens_per_second"] == pytest.approx(0.75 * record["tokens_per_second"])
        assert record["tokens_per_second"] == pytest.approx(tiny.B * tiny.S * record["steps_per_second"])


def test_the_baseline_is_a_line_in_the_charts_of_the_curves(run):
    found = read_scalars(run[0])
    assert found["baseline", "accuracy/mlm_accuracy"] == [(step, 0.25) for step in (0, 3, 6, 7)]
    assert {tag for which, tag in found if which == "baseline"} == {"accuracy/mlm_accuracy", "loss/mlm_loss"}


def test_the_first_two_groups_are_those_that_matter(run):
    groups = {tag.split("/")[0] for plugin in ("scalars", "histograms", "images") for _, tag in tags_of(run[0], plugin)}
    assert sorted(groups)[:2] == ["accuracy", "loss"]
    assert groups == {"accuracy", "loss", "norms", "optimizer", "self_attention", "speed", "weights"}


def test_what_is_sampled(run):
    found = read_scalars(run[0])
    layers = {"embeddings", "encoder_block_0", "pooler", "masked_lm_head", "next_sentence_head"}
    for kind in ("gradient", "weight", "update_ratio"):
        of_kind = {tag.split("/")[-1]: found[which, tag] for which, tag in found if f"norms/{kind}/" in tag}
        assert of_kind.keys() == layers
        assert all([step for step, _ in series] == [3, 6, 7] for series in of_kind.values())
    total = np.sqrt(sum(found["train", f"norms/gradient/{layer}"][1][1] ** 2 for layer in layers))
    assert total == pytest.approx(found["train", "optimizer/gradient_norm"][1][1], rel=1e-4)
    tags = tags_of(run[0], "histograms")
    assert ("train", "weights/encoder_block_0/attention/query/kernel") in tags
    assert ("train", "self_attention/entropy/encoder_block_0") in tags
    mean = found["train", "self_attention/mean_entropy/encoder_block_0"]
    assert len(mean) == 3 and all(0 < value <= np.log(tiny.S) for _, value in mean)


def test_a_wrong_batch_is_an_error_before_the_training(tmp_path):
    model = tiny.model()
    board = TensorBoard(tmp_path, batch={"input_ids": np.ones((2, tiny.S), "int32")})
    seen = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: pytest.fail("trained"))
    with pytest.raises(ValueError, match="input_ids is token_ids here"):
        model.fit(tiny.make_dataset(2), epochs=1, steps_per_epoch=2, callbacks=[board, seen], verbose=0)


@pytest.mark.parametrize("task", ["span", "multiple_choice"])
def test_models_of_tasks_have_samples(tmp_path, task):
    """(Where other tests train, tests/conftest.py leaves them out.)"""
    model = make_model(task, vocabulary_size=37, num_layers=1)  # of these batches
    model.compile()
    model.optimizer.build(model.trainable_variables)
    batch = {"multiple_choice": choice_batch, "masked_lm": pretraining_batch}.get(task, plain_batch)
    board = TensorBoard(tmp_path, batch=batch())
    board.set_model(model)
    board.on_train_begin()
    board.on_epoch_end(0, {"loss": 1.0, "step": 1, "learning_rate": 0.1})
    board.on_train_end()
    tags = {tag for plugin in ("scalars", "histograms") for _, tag in tags_of(tmp_path, plugin)}
    assert {"norms/update_ratio/encoder_block_0", "self_attention/entropy/encoder_block_0"} <= tags
    assert sum(tag.startswith("weights/") for tag in tags) == sum(len(v.shape) > 1 for v in model.trainable_variables)


def test_the_layout_is_there_once(run):
    events = [event for _, event in read_events(run[0])]
    plugins = [value.metadata.plugin_data.plugin_name for event in events for value in event.summary.value]
    assert plugins.count("custom_scalars") == 1


def test_the_final_scores_are_those_of_the_held_out_data(run):
    logs, history = run
    found = read_scalars(logs)
    assert found["final", "accuracy/mlm_accuracy"] == [(7, pytest.approx(history[-1]["val_mlm_accuracy"]))]
    assert tags_of(logs, "hparams") == {("final", f"_hparams_/session_{part}_info") for part in ("start", "end")}


def test_a_resumed_run_shows_every_step_once(tmp_path):
    def train(*callbacks):
        board = TensorBoard(tmp_path / "logs", baseline=BASELINE, time_fraction=1.0)
        options = {"window": 2, "every": 4, "callbacks": [board, *callbacks]}
        return tiny.train(tiny.model(), tiny.make_dataset, 10, tmp_path, **options)

    with pytest.raises(Killed):
        train(killed_at(7))
    found = read_scalars(tmp_path / "logs")
    assert [step for step, _ in found["train", "loss/loss"]] == [2, 4, 6]  # the last checkpoint is of step 4
    assert not any(which == "final" for which, _ in found)
    history = train()
    read = {run: EventAccumulator(str(tmp_path / "logs" / run)).Reload() for run in ("train", "baseline", "final")}
    losses = [(event.step, tf.make_ndarray(event.tensor_proto)) for event in read["train"].Tensors("loss/loss")]
    assert losses == [(r["step"], pytest.approx(r["loss"])) for r in history]
    assert [event.step for event in read["baseline"].Tensors("loss/mlm_loss")] == [0, 2, 4, 6, 8, 10]
    for run in ("train", "final"):
        for tag in read[run].Tags()["tensors"]:
            steps = [event.step for event in read[run].Tensors(tag)]
            assert len(set(steps)) == len(steps), tag
    assert [event.step for event in read["train"].Tensors("norms/weight/pooler")] == [2, 4, 6, 8, 10]


def test_it_goes_with_plain_fit(tmp_path):
    model = tiny.model()
    fitted = model.fit(
        tiny.make_dataset(),
        steps_per_epoch=2,
        epochs=2,
        callbacks=[TensorBoard(tmp_path)],
        verbose=0,
        validation_data=tiny.make_dataset(500),
        validation_steps=1,
    )
    found = read_scalars(tmp_path)
    assert [step for step, _ in found["train", "optimizer/gradient_norm"]] == [2, 4]
    for which, prefix in (("train", ""), ("validation", "val_")):
        expected = [(2 * n + 2, pytest.approx(v)) for n, v in enumerate(fitted.history[f"{prefix}mlm_logits_accuracy"])]
        assert found[which, "accuracy/mlm_accuracy"] == expected
    assert found["final", "loss/loss"] == [(4, pytest.approx(fitted.history["val_loss"][-1]))]
    assert len(tags_of(tmp_path, "hparams")) == 2
    assert ("train", "norms/weight/pooler") in found  # of the first epoch at least


def test_keras_need_not_wait_for_it_at_each_batch(tmp_path, monkeypatch):
    monkeypatch.setattr("keras.src.backend.IS_THREAD_SAFE", True)  # as on JAX
    for board, expected in ((TensorBoard(tmp_path), True), (TensorBoard(tmp_path, profile="1"), False)):
        assert keras.callbacks.CallbackList([board])._async_train is expected


def test_other_workers_write_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("kbert.inspection.board.tensor_board.is_chief", lambda model: False)
    tiny.model().fit(tiny.make_dataset(), steps_per_epoch=2, callbacks=[TensorBoard(tmp_path, profile="1")], verbose=0)
    assert not list(tmp_path.iterdir())


def test_steps_on_request_are_profiled(tmp_path):
    board = TensorBoard(tmp_path / "logs", profile="2:3")
    tiny.train(tiny.model(), tiny.make_dataset, 4, window=4, callbacks=[board])
    (profile,) = (tmp_path / "logs").rglob("*.xplane.pb")
    assert profile.relative_to(tmp_path / "logs").parts[:3] == ("train", "plugins", "profile")


def test_the_name_of_a_file_that_is_not_utf8_is_a_setting():
    row = session_start({"corpus": [os.fsdecode(b"caf\xe9.txt")], "name": "Zürich"})
    stored = row.metadata.plugin_data.content
    assert rb'["caf\udce9.txt"]' in stored and "Zürich".encode() in stored


@pytest.mark.parametrize("given, steps", [("20:25", (20, 25)), ("3", (3, 3))])
def test_profiled_steps(given, steps):
    assert profiled_steps(given) == steps


@pytest.mark.parametrize("wrong", ["", "a", "0:3", "5:4", "1:2:3", "2:", 3, (5, 6)])
def test_other_steps_are_refused(wrong):
    with pytest.raises(ValueError, match='`profile` must be steps .* as "20:25". Received: '):
        profiled_steps(wrong)


def test_samples_take_their_share_of_the_time_and_no_more():
    now, taken = [0.0], []
    sampler = Sampler(0.01, now=lambda: now[0])
    sampler.begin()
    for _ in range(1000):
        now[0] += 1.0  # a window
        if sampler.is_due():
            with sampler.measure():
                now[0] += 0.5
            taken.append(now[0])
    assert taken[0] == 1.5 and len(taken) == 20
    assert 0.5 * len(taken) <= 0.01 * now[0]
    for wrong in (0, -1, "1", True, None):
        with pytest.raises(ValueError, match="`time_fraction` must be a number in \\(0, inf\\). Received: "):
            Sampler(wrong)


@pytest.mark.parametrize(
    "name, group",
    [
        *((name, "accuracy") for name in ("accuracy", "f1", "exact_match", "matthews", "pearson_spearman", "own")),
        *((name, "loss") for name in ("loss", "start_loss", "mlm_perplexity", "mse", "mean_squared_error", "my_mae")),
        *((name, "optimizer") for name in ("learning_rate", "gradient_norm")),
        *((name, "speed") for name in ("tokens_per_second", "fraction_of_peak", "minutes", "peak_memory_gib")),
    ],
)
def test_groups(name, group):
    assert scalar_tag(name) == f"{group}/{name}"


def test_a_callback_can_be_used_for_a_second_run(tmp_path):
    board = TensorBoard(tmp_path)
    for _ in range(2):
        tiny.train(tiny.model(), tiny.make_dataset, 2, window=2, callbacks=[board])
    starts = [e.session_log.status for run, e in read_events(tmp_path) if run == "train" and e.HasField("session_log")]
    assert starts == [1, 1]  # the second start at step 1 makes TensorBoard forget the first run
