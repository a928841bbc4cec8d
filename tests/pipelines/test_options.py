"""The options of `build_pipeline`: what a task does not take is an error, "off" is not "as stored", and what a pipeline
says of itself builds it again."""

import functools

import numpy as np
import pytest
from helpers.model_settings import settings_of
from helpers.slow_but import slow_but
from helpers.tiny_bert import tiny_config, tiny_tokenizer
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.answers.embedding import POOLINGS
from kbert.pipelines.registry import task_class, task_names

ONE = tiny_config(num_layers=1)
MODELS = {
    "classification": lambda: kbert.BertClassifier(ONE),
    "regression": lambda: kbert.BertRegressor(ONE),
    "multiple_choice": lambda: kbert.BertMultipleChoice(ONE),
    "span": lambda: kbert.BertSpanExtractor(ONE),
    "tagging": lambda: kbert.BertTagger(ONE, 2),
    "masked_lm": lambda: kbert.BertPretrainer(ONE, next_sentence=False),
    "pretraining": lambda: kbert.BertPretrainer(ONE),
    "next_sentence": lambda: kbert.BertPretrainer(ONE, masked_lm=False),
    "encoder": lambda: kbert.BertEncoder(ONE),
    "similarity": lambda: kbert.BertSentenceEncoder(ONE),
}
VALUES = {  # no defaults, and legal together
    "labels": ["x", "y"],
    "sequence_length": 11,
    "pair": True,
    "max_masks": 3,
    "top_k": 2,
    "pooling": "cls",
    "normalize": True,
    "doc_stride": 3,
    "max_query_length": 5,
    "n_best": 4,
    "max_answer_length": 6,
    "null_threshold": -1.5,
    "tagging_output": "entities",
    "window_pooling": "max",
}
TAKEN = {
    "classification": {"labels", "pair", "window_pooling", "doc_stride"},
    "regression": {"pair", "window_pooling", "doc_stride"},
    "multiple_choice": set(),
    "span": {"doc_stride", "max_query_length", "n_best", "max_answer_length", "null_threshold"},
    "tagging": {"labels", "doc_stride", "tagging_output"},
    "masked_lm": {"max_masks", "top_k"},
    "pretraining": {"max_masks", "top_k"},
    "next_sentence": {"pair"},
    "encoder": {"pair", "pooling", "normalize"},
    "similarity": set(),
}


# Tasks with the settings of another one.
LIKE_OTHERS = ("regression", "multiple_choice", "masked_lm", "pretraining", "next_sentence", "similarity")


@pytest.fixture(scope="module")
def models():
    return {task: make() for task, make in MODELS.items()}


@pytest.fixture(scope="module")
def stored(models, tmp_path_factory):
    """Function of a task: the directory of its model."""

    @functools.cache
    def save(task):
        directory = tmp_path_factory.mktemp("models") / task
        kbert.save_pretrained(models[task], directory, tokenizer=tiny_tokenizer())
        return directory

    return save


@pytest.fixture(scope="module")
def plain(models):
    """Function of a task and options: the pipeline without any other."""
    return functools.cache(lambda task, **options: kbert.build_pipeline(models[task], tiny_tokenizer(), **options))


def test_all_options_are_tried():
    fields = {name for word in task_names() for name in task_class(word).option_names()} | {"sequence_length"}
    # Of multi-label classifiers (tests/models/test_multi_label.py) and of training (test_fit_on_masks.py) alone.
    elsewhere = {"thresholds", "masking"}
    assert set(VALUES) == fields - elsewhere
    for word in task_names():
        assert set(task_class(word).option_names()) - elsewhere == TAKEN[word]


def test_a_misspelt_option_is_an_error(models):
    with pytest.raises(ValueError, match=r"takes the options .*'sequence_length'.* Received: \['sequence_lenght'\]"):
        kbert.build_pipeline(models["classification"], tiny_tokenizer(), sequence_lenght=9)
    pipeline = kbert.build_pipeline(models["classification"], tiny_tokenizer(), name="mine")
    assert pipeline.name == "mine"
    with pytest.raises(TypeError, match="foo"):
        kbert.Pipeline(pipeline.preprocessor, pipeline.model, pipeline.answers, foo=1)


@pytest.mark.parametrize("option", VALUES)
@pytest.mark.parametrize("task", MODELS)
def test_an_option_changes_the_pipeline_or_is_an_error(models, plain, task, option):
    more = {"window_pooling": "mean"} if option == "doc_stride" and "window_pooling" in TAKEN[task] else {}
    if option not in TAKEN[task] | {"sequence_length"}:
        with pytest.raises(ValueError, match=rf"a {task} model takes the options \['sequence_length'.*\['{option}'\]"):
            kbert.build_pipeline(models[task], tiny_tokenizer(), **{option: VALUES[option]})
        return
    usual = plain(task, **more)
    other = kbert.build_pipeline(models[task], tiny_tokenizer(), **more, **{option: VALUES[option]})
    if option == "tagging_output":
        assert list(other.output) != list(usual.output)
    assert other.settings()[option] == VALUES[option]
    assert usual.settings().get(option) != VALUES[option] or task == "next_sentence"


def test_options_that_contradict_each_other(models):
    for task in ("classification", "regression"):
        for more in ({}, {"window_pooling": None}):
            with pytest.raises(ValueError, match="`doc_stride` goes with `window_pooling`.*doc_stride=9"):
                kbert.build_pipeline(models[task], tiny_tokenizer(), doc_stride=9, **more)
    with pytest.raises(ValueError, match=r"\['null_threshold'\]"):  # None is a value of its own
        kbert.build_pipeline(models["classification"], tiny_tokenizer(), null_threshold=None)


def test_loading_refuses_what_building_does(models, stored):
    rows = (
        (("classification", {"labels": ["a", "a"]}), "`labels` must be different strings, at least one"),
        (("classification", {"labels": []}), r"`labels` must be different strings, at least one. Received: \[\]"),
        (("classification", {"sequence_length": "16"}), "`sequence_length` must be a positive integer. Received: '16'"),
        (("classification", {"pair": "no"}), "`pair` must be True or False. Received: 'no'"),
        (("classification", {"thresholds": [0.1, 0.2]}), "`thresholds` are a multi-label classifier's"),
        (("classification", {"doc_stride": 5}), "`doc_stride` goes with `window_pooling`"),
        (("classification", {"pair": True, "window_pooling": "max"}), "`window_pooling` is for single texts"),
        (("tagging", {"labels": ["a", "a"]}), "`labels` must be different strings, at least one"),
        (("tagging", {"tagging_output": "words"}), "`tagging_output` must be one of"),
        (("span", {"null_threshold": "1"}), "`null_threshold` must be a number in .*Received: '1'"),
        (("encoder", {"normalize": "no"}), "`normalize` must be True or False. Received: 'no'"),
        (("encoder", {"pooling": "medoid"}), "`pooling` must be one of"),
        (("next_sentence", {"pair": False}), "reads pairs of texts. Received: pair=False"),
    )
    wrong_inputs(lambda row: kbert.build_pipeline(models[row[0]], tiny_tokenizer(), **row[1]), *rows)
    wrong_inputs(lambda row: kbert.load_pretrained(stored(row[0]), **row[1]), *rows)


def test_labels_in_an_array(models, stored):
    labels = np.array(["x", "y"])
    assert kbert.build_pipeline(models["tagging"], tiny_tokenizer(), labels=labels).settings()["labels"] == ["x", "y"]
    assert kbert.load_pretrained(stored("tagging"), labels=labels).pretrained.settings.task.labels == ("x", "y")


def test_poolings_are_those_of_the_answers():
    for pooling in POOLINGS:
        assert kbert.tasks.Encoder(pooling=pooling).pooling == pooling


@pytest.mark.parametrize(
    "task, special_tokens_in_text",
    [
        *((task, False) for task in ("classification", "span", "tagging", "encoder")),
        ("masked_lm", True),
        *(pytest.param(task, False, marks=pytest.mark.slow) for task in LIKE_OTHERS),
        *(pytest.param(task, True, marks=pytest.mark.slow) for task in MODELS if task != "masked_lm"),
    ],
)
def test_what_a_pipeline_says_of_itself_builds_it_again(models, task, special_tokens_in_text, tmp_path):
    tokenizer = tiny_tokenizer(special_tokens_in_text=special_tokens_in_text, split_on_cjk=False, max_word_length=7)
    options = {name: VALUES[name] for name in TAKEN[task] - {"window_pooling", "doc_stride", "tagging_output"}}
    for more in ({}, {"window_pooling": "max", "doc_stride": 3, "pair": False}):
        if more and "window_pooling" not in TAKEN[task]:
            continue
        pipeline = kbert.build_pipeline(models[task], tokenizer, sequence_length=11, **options | more)
        settings = pipeline.settings()
        assert settings["tokenizer"] == tokenizer.settings()
        again = dict(settings)
        again_tokenizer = tiny_tokenizer(**again.pop("tokenizer"))
        if again.get("window_pooling", "") is None or task == "tagging":
            again.pop("doc_stride", None)
        assert kbert.build_pipeline(models[task], again_tokenizer, **again).settings() == settings
        kbert.save_pretrained(pipeline, tmp_path / "model", overwrite=True)
        loaded = kbert.load_pretrained(tmp_path / "model")
        assert kbert.build_pipeline(loaded).settings() == settings
        stored = loaded.pretrained.settings.to_dict()
        fields = stored.pop("task") | stored
        assert {name: fields[name] for name in settings if name in fields} == settings


STORED = {
    "classification": ("window_pooling", "max"),
    "regression": ("window_pooling", "mean"),
    "span": ("null_threshold", 0.5),
}


@pytest.mark.parametrize("task", slow_but(("classification", "span"), STORED))
def test_none_turns_off_what_is_stored(models, task, tmp_path):
    option, value = STORED[task]
    settings = settings_of(task, 11, doc_stride=5, **{option: value})
    kbert.save_pretrained(models[task], tmp_path / task, tokenizer=tiny_tokenizer(), settings=settings)
    model = kbert.load_pretrained(tmp_path / task)
    assert kbert.build_pipeline(model).settings()[option] == value
    off = kbert.build_pipeline(model, **{option: None})
    assert off.settings()[option] is None
    kbert.save_pretrained(off, tmp_path / f"{task} off")
    again = kbert.load_pretrained(tmp_path / f"{task} off")
    assert getattr(again.pretrained.settings.task, option) is None
    assert kbert.build_pipeline(again).settings()[option] is None
