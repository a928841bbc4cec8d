"""kbert.finetune: the rows, models and options that it takes, and what it records of them."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.run_eagerly import run_eagerly
from helpers.run_recipe import read_json
from helpers.tiny_directory import write_table, write_tiny_directory
from helpers.tiny_finetuning import DEV, QUICK, ROWS, TASK, same

import kbert
from kbert.tasks.finetuning import Finetuning


@pytest.fixture(autouse=True, scope="module")
def op_by_op():
    with run_eagerly():
        yield


@pytest.fixture(scope="module")
def init(tmp_path_factory):
    return write_tiny_directory(tmp_path_factory.mktemp("home") / "init")


class Frame:
    """As pandas has it."""

    def __init__(self, columns):
        self._columns, self.columns = columns, list(columns)

    def __getitem__(self, name):
        return np.array(self._columns[name], object)


def test_rows_in_memory_in_every_form(tmp_path):
    texts, labels = (list(column) for column in zip(*ROWS, strict=True))
    columns = {"text": texts, "label": labels}
    dataset = tf.data.Dataset.from_tensor_slices(columns)
    pairs = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(7)
    write_table(tmp_path / "train.csv", ROWS)
    forms = [
        ROWS,
        columns,
        [{"text": text, "label": label, "other": 1} for text, label in ROWS],
        Frame(columns),
        dataset,
        dataset.batch(7),
        pairs,
        tmp_path / "train.csv",
        TASK.read(tmp_path / "train.csv"),
    ]
    for form in forms:
        examples = TASK.examples(form)
        assert (list(examples.texts), list(examples.label_names)) == (texts, ["bad", "good"])
        assert [examples.label_names[n] for n in examples.labels] == labels
        assert examples.fingerprint() == TASK.examples(ROWS).fingerprint()


@pytest.mark.parametrize(
    "data, message",
    [
        ([("a",)], r"row 0: expected 2 values, \['text', 'label'\]"),
        ([], "at least one row"),
        ({"text": ["a"]}, r"missing: \['label'\]"),
        ([{"text": "a", "label": None}], "row 0: expected a label in 'label'"),
        ([("a", ["b"])], "row 0: 'label' must be a string or a number"),
        ([("a", "x"), ("b \ud83d", "y")], "row 1: 'text': expected characters. Received: half a surrogate pair"),
        (tf.data.Dataset.from_tensors({"text": "a", "label": 1}).repeat(), "a finite dataset"),
    ],
)
def test_rows_that_are_none(data, message):
    with pytest.raises(ValueError, match=message):
        TASK.examples(data)
    with pytest.raises(TypeError, match="Received: int"):
        TASK.examples(3)


def test_missing_values_of_pandas_are_empty():
    class NAType:
        """As pandas' own, it cannot be compared."""

        def __ne__(self, other):
            return self

        def __bool__(self):
            raise TypeError("boolean value of NA is ambiguous")

    examples = TASK.examples({"text": ["good", NAType(), float("nan"), None], "label": ["a", "b", "a", "b"]})
    assert list(examples.texts) == ["good", "", "", ""]


@pytest.mark.parity
def test_frames_of_pandas():
    pandas = pytest.importorskip("pandas")
    texts, labels = (list(column) for column in zip(*ROWS, strict=True))
    plain = pandas.DataFrame({"text": texts, "label": labels}, index=range(5, 5 + len(texts)))
    numbers = plain["label"].map({"bad": 0, "good": 1})
    for frame in (plain, plain.convert_dtypes(), plain.astype({"label": "category"}), plain[plain["label"] != ""]):
        examples = TASK.examples(frame)
        assert (list(examples.texts), list(examples.label_names)) == (texts, ["bad", "good"])
        assert examples.fingerprint() == TASK.examples(ROWS).fingerprint()
    for dtype in ("int64", "Int8", "category"):
        assert list(TASK.examples(plain.assign(label=numbers.astype(dtype))).label_names) == ["0", "1"]
    for missing in (None, float("nan"), pandas.NA, pandas.NaT):
        assert TASK.examples(plain.assign(text=[missing, *texts[1:]])).texts[0] == ""
    with pytest.raises(ValueError, match=r"row 1: expected a label in 'label'"):
        TASK.examples(plain.assign(label=[labels[0], pandas.NA, *labels[2:]]))
    with pytest.raises(ValueError, match=r"missing: \['label'\]"):
        TASK.examples(plain.rename(columns={"label": "class"}))


def test_models_and_pipelines_are_trained_themselves(init):
    encoder = kbert.load_pretrained(init, "encoder")
    before = encoder.get_weights()
    run = kbert.finetune(encoder, TASK, ROWS, DEV, **(QUICK | {"steps": 2}))
    assert run.pipeline.model.encoder is encoder and not same(before, encoder.get_weights())
    again = kbert.finetune(run.pipeline, TASK, ROWS, **(QUICK | {"steps": 2}), class_weight={"good": 2.0})
    assert again.pipeline.model is run.pipeline.model
    with pytest.raises(ValueError, match="a source that is loaded"):
        kbert.finetune(encoder, TASK, ROWS, dropout=0.1)
    with pytest.raises(ValueError, match="`class_weight` for the labels.*Received: 'fine'"):
        kbert.finetune(encoder, TASK, ROWS, class_weight={"fine": 1.0}, sequence_length=9)


def test_random_weights_keep_only_the_architecture(init):
    rows = [*ROWS, ("the film", "so so")]

    def built(**options):
        return Finetuning(init, TASK, rows, **(QUICK | options)).pipeline.model

    loaded, fresh = built(), built(random_weights=True, dropout=0.0)
    again, other = (built(random_weights=True, dropout=0.0, seed=seed) for seed in (0, 1))
    kernels = [
        next(v.numpy() for v in m.weights if v.path.endswith("attention/query/kernel"))
        for m in (kbert.load_pretrained(init, task="encoder"), loaded, fresh, again, other)
    ]
    np.testing.assert_array_equal(kernels[0], kernels[1])
    np.testing.assert_array_equal(kernels[2], kernels[3])
    assert np.abs(kernels[2] - kernels[0]).max() > 0.01
    assert np.abs(kernels[2] - kernels[4]).max() > 0.01
    assert (fresh.num_labels, fresh.dropout, fresh.config.attention_dropout) == (3, 0.0, 0.0)
    assert (loaded.dropout, loaded.config.attention_dropout) == (0.1, 0.1)
    assert fresh.count_params() == loaded.count_params()


def test_other_rows_do_not_resume(init, tmp_path):
    Finetuning(init, TASK, ROWS, DEV, tmp_path / "run", **QUICK).open()
    for rows, message in ((ROWS[:-1], "other rows in train"), (ROWS, None)):
        work = Finetuning(init, TASK, rows, DEV, tmp_path / "run", **QUICK)
        kbert_locks_free(tmp_path / "run")
        if message:
            with pytest.raises(ValueError, match=message):
                work.open()
        else:
            assert work.open().resume
    with pytest.raises(FileExistsError, match="seed: 0 there, 1 now"):
        Finetuning(init, TASK, ROWS, DEV, tmp_path / "run", **QUICK, seed=1).open()


def test_a_run_records_all_that_it_reads(init, tmp_path):
    for name in ("train", "dev", "more"):
        write_table(tmp_path / f"{name}.csv", ROWS)
    files = {name: TASK.read(tmp_path / f"{name}.csv") for name in ("train", "dev", "more")}
    work = Finetuning(
        init, TASK, files["train"], files["dev"], tmp_path / "run", more_dev={"_more": files["more"]}, **QUICK
    )
    work.open()
    recorded = read_json(tmp_path / "run" / "inputs.json")
    assert set(recorded["inputs"]) == {"train", "dev", "more_dev", "init"} and set(recorded["made_by"]) == {"init"}
    assert recorded["examples"] == {name: files[name].fingerprint() for name in ("train", "dev")}
    train, dev = files["train"].split(0.2)
    Finetuning(init, TASK, train, dev, tmp_path / "split", **QUICK).open()
    assert set(read_json(tmp_path / "split" / "inputs.json")["inputs"]) == {"train", "init"}


def kbert_locks_free(path):
    from kbert.locks import unlock_directory

    unlock_directory(path)


def test_an_estimate_writes_nothing(init, tmp_path):
    work = Finetuning(init, TASK, ROWS, DEV, tmp_path / "run", **QUICK)
    estimate = work.estimate()
    assert not (tmp_path / "run").exists()
    model = work.pipeline.model
    assert (estimate["examples"], estimate["windows"], estimate["steps"]) == (30, 30, 12)
    assert estimate["parameters"] == estimate["trainable_parameters"] == model.count_params()
    assert estimate["memory_bytes"] > 16 * model.count_params() and estimate["seconds"] > 0


@pytest.mark.parametrize(
    "options, message",
    [
        ({"steps": 0}, "`steps` must be a whole number"),
        ({"epochs": 0}, "`epochs` must be a number above 0"),
        ({"keep": "first"}, '"best" or "last"'),
        ({"evaluate_every": "day"}, "evaluate_every"),
    ],
)
def test_wrong_options_are_named(init, options, message):
    with pytest.raises(ValueError, match=message):
        kbert.finetune(init, TASK, ROWS, **options)


def test_balanced_classes_weigh_the_same(init):
    from kbert.tasks.classification.dataset import class_weights

    work = Finetuning(init, TASK, ROWS, **QUICK)
    factors = class_weights("balanced", work.pipeline, work.train)
    sums = [factors[work.train.labels == n].sum() for n in (0, 1)]
    assert sums == pytest.approx([15, 15])
    _, _, given = next(
        iter(
            work.task.training_data(
                work.pipeline, work.train, class_weight="balanced", batch_size=30, padding="longest"
            ).make_dataset()
        )
    )
    assert sorted(given["logits"].numpy().tolist()) == pytest.approx(sorted(factors.tolist()))


@pytest.mark.parametrize(
    "class_weight, message",
    [
        ({"fine": 2.0}, r"for the labels \['bad', 'good'\], or the classes 0 to 1. Received: 'fine'"),
        ("balance", r"`class_weight` as \{label: factor\} or \"balanced\". Received: 'balance'"),
        ({"good": -1.0}, "expected `class_weight` of at least 0 for 'good'. Received: -1.0"),
        ({"good": float("nan")}, "expected `class_weight` of at least 0 for 'good'. Received: nan"),
    ],
)
def test_a_wrong_class_weight_leaves_nothing_behind(init, tmp_path, class_weight, message):
    with pytest.raises(ValueError, match=message):
        kbert.finetune(init, TASK, ROWS, output=tmp_path / "run", class_weight=class_weight, **QUICK)
    assert not (tmp_path / "run").exists()


def test_keys_and_factors_of_class_weights_are_those_of_a_pipeline(init, tmp_path):
    stars = [(text, {"good": "2", "bad": "1"}[label]) for text, label in ROWS]
    with pytest.raises(ValueError, match="finetune: expected strings as keys of `class_weight`.*the label '1'"):
        Finetuning(init, TASK, stars, class_weight={1: 5.0}, **QUICK)
    work = Finetuning(init, TASK, stars, output=tmp_path / "run", class_weight={"1": np.float32(5.0)}, **QUICK)
    work.open()
    assert read_json(tmp_path / "run" / "settings.json")["class_weight"] == {"1": 5.0}
    regression = kbert.tasks.Regression()
    with pytest.raises(ValueError, match="`class_weight` is for models with labels. Received: 'balanced'"):
        Finetuning(init, regression, [(text, "1.5") for text, _ in ROWS], class_weight="balanced", **QUICK)


@pytest.mark.parametrize("option", ["epochs", "learning_rate"])
def test_a_rate_that_is_no_number_is_named(init, option):
    with pytest.raises(ValueError, match=f"`{option}` must be a number above 0. Received: '3'"):
        kbert.finetune(init, TASK, ROWS, **(QUICK | {option: "3"}))
