"""`kbert.pretrain` from models and pipelines in memory: what stays as it is, whose ids they read, how they resume."""

import types

import keras
import pytest
from helpers.at_step import Killed, killed_at
from helpers.compare import assert_arrays_equal
from helpers.run_eagerly import run_eagerly
from helpers.tiny_corpus import VOCABULARY, make_documents, make_pretrainer

import kbert
from kbert.pretraining.run import pretrain as pretrain_module
from kbert.pretraining.run.corpus_data import CorpusData

pytestmark = pytest.mark.usefixtures("same_data")

SHORT = {"steps": 2, "batch_size": 4, "sequence_length": 16, "evaluation_batches": 1, "packed": False}
DOCUMENTS = make_documents(60)
OTHER = [*VOCABULARY[:7], *VOCABULARY[:6:-1]]  # the same tokens, with other ids


def given(vocabulary=VOCABULARY, loaded=False, **options):
    tokenizer = kbert.BertTokenizer(vocabulary, **options)
    model = make_pretrainer(16)
    if not loaded:
        return kbert.build_pipeline(model, tokenizer, sequence_length=16)
    model.pretrained = types.SimpleNamespace(tokenizer=tokenizer)
    return model


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize(
    "init, source, message",
    [
        ((OTHER, {}), "documents", "`vocabulary` must have the vocabulary of `init`.* Received: 59 tokens, which"),
        ((OTHER, {}), "records", "the records must have the vocabulary of `init`.* Received: 59 tokens, which are"),
        ((VOCABULARY, {"lowercase": False}), "documents", "`vocabulary` must have the tokenizer settings of `init`"),
        (
            (VOCABULARY, {"lowercase": False}),
            "records",
            "settings of `init`. Received: lowercase=True instead of False",
        ),
    ],
)
def test_text_and_records_have_the_tokenizer_of_the_model(records, loaded, init, source, message):
    vocabulary, options = init
    data = (records, {}) if source == "records" else (DOCUMENTS, {"vocabulary": VOCABULARY, "held_out": 0.2})
    with pytest.raises(ValueError, match=f"pretrain: .*{message}"):
        kbert.pretrain(data[0], init=given(vocabulary, loaded, **options), **data[1], **SHORT)


@pytest.mark.usefixtures("eagerly")
def test_the_same_tokenizer_may_be_given_again(records, monkeypatch):
    monkeypatch.setattr(pretrain_module, "_estimate", lambda *arguments: {})
    monkeypatch.setattr(CorpusData, "evaluations", lambda data, batches, parts: [])
    for init in (given(strip_accents=True), given(loaded=True), make_pretrainer(16)):
        text = {"vocabulary": VOCABULARY, "held_out": 0.2}
        for source, options in ((records, {}), (DOCUMENTS, text)):
            found = kbert.pretrain(source, init=init, dry_run=True, **options, **SHORT)
            assert found.tokenizer.vocabulary == VOCABULARY


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("packed", [False, True])
def test_of_a_model_for_packed_rows_the_runs_own_is_for_plain_ones(records, packed):
    init = make_pretrainer(16).with_parts(4)
    before = init.get_weights()
    run = kbert.pretrain(records, init=init, **SHORT | {"packed": packed})
    assert run.model.encoder.num_parts is None and init.encoder.num_parts == 4
    assert run.pipeline.predict([f"{VOCABULARY[-1]} [MASK]"])["count"].tolist() == [1]
    assert_arrays_equal(run.model.get_weights(), init.get_weights())  # trained in place
    assert any((one != other).any() for one, other in zip(before, init.get_weights(), strict=True))


@pytest.mark.usefixtures("eagerly")
def test_an_unfinished_run_resumes_from_the_model_as_it_was(records, tmp_path):
    def kill(batch, logs):
        if int(model.optimizer.iterations.numpy()) == 2:  # the first has a rate of 0
            raise RuntimeError("killed")

    options = SHORT | {"output": tmp_path / "run", "learning_rate": 1e-2}
    model, killer = make_pretrainer(16), keras.callbacks.LambdaCallback(on_train_batch_end=kill)
    with pytest.raises(RuntimeError, match="killed"):
        kbert.pretrain(records, init=model, callbacks=killer, **options)
    message = r"init: .* there, .* now\). To resume it, give the model as it was at the start, or load it again. Other"
    with pytest.raises(FileExistsError, match=message):
        kbert.pretrain(records, init=model, **options)
    assert kbert.pretrain(records, init=make_pretrainer(16), **options).metrics["steps"] == 2


@pytest.mark.parametrize("is_link", [False, True])
def test_an_error_in_the_data_is_not_hidden_where_the_output_was_there(records, tmp_path, monkeypatch, is_link):
    def fail(*arguments):
        raise ValueError("a damaged shard")

    monkeypatch.setattr(CorpusData, "describe", fail)
    output = tmp_path / "run"
    (tmp_path / "disk").mkdir()
    output.symlink_to(tmp_path / "disk") if is_link else output.mkdir()
    with pytest.raises(ValueError, match="a damaged shard"):
        kbert.pretrain(records, init=make_pretrainer(16), output=output, **SHORT)
    assert output.is_dir() and not list(output.iterdir()) and output.is_symlink() == is_link
    with pytest.raises(ValueError, match="a damaged shard"):
        kbert.pretrain(records, init=make_pretrainer(16), output=tmp_path / "new", **SHORT)
    assert not (tmp_path / "new").exists()


OFTEN = {"log_every": 1, "checkpoint_every": 1, "keep_best": True}
BEST = SHORT | OFTEN | {"steps": 4, "warmup_steps": 1, "learning_rate": 0.5}  # so that it soon becomes worse


@pytest.fixture(scope="module")
def whole(records, tmp_path_factory):
    """A run that keeps its best checkpoint."""
    with run_eagerly():
        return kbert.pretrain(records, init=make_pretrainer(16), output=tmp_path_factory.mktemp("best") / "run", **BEST)


def test_the_best_checkpoint_is_kept_on_request(records, whole, tmp_path):
    losses = {record["step"]: record["val_loss"] for record in whole.history if record["step"]}
    best = whole.metrics["best_step"]
    assert best == min(losses, key=losses.get) and best < 4
    assert [path.name for path in (whole.path / "checkpoints").glob("step-*")] == [f"step-{best:010d}"]
    assert kbert.load_pretrained(f"{whole.path}@{best}").task == "pretraining"
    for wrong in (
        {"output": None},
        {"output": tmp_path / "new", "phases": [(8, 0.5), (16, 0.5)]},
    ):
        with pytest.raises(ValueError, match="`keep_best` needs `output` and rows of one length"):
            kbert.pretrain(records, init=make_pretrainer(16), **BEST | wrong)


@pytest.mark.slow  # resuming: test_an_unfinished_run_resumes_from_the_model_as_it_was
@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("kill_at", [2, 4])  # the best is that of step 1
def test_a_killed_run_keeps_the_same_best_checkpoint(kill_at, records, whole, tmp_path):
    with pytest.raises(Killed):
        kbert.pretrain(records, init=make_pretrainer(16), output=tmp_path / "run", callbacks=killed_at(kill_at), **BEST)
    run = kbert.pretrain(records, init=make_pretrainer(16), output=tmp_path / "run", **BEST)
    assert run.metrics["best_step"] == whole.metrics["best_step"]
    names = [[path.name for path in (one / "checkpoints").glob("step-*")] for one in (whole.path, tmp_path / "run")]
    assert names[0] == names[1] == [f"step-{run.metrics['best_step']:010d}"]
    best = [kbert.load_pretrained(f"{one}@{run.metrics['best_step']}") for one in (whole.path, tmp_path / "run")]
    assert_arrays_equal(*(one.get_weights() for one in best))
