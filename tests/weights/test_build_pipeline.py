"""Where a pipeline's settings come from, and what cannot be built."""

import dataclasses

import pytest
from helpers.model_settings import settings_of
from helpers.tiny_bert import VOCABULARY, tiny_config, tiny_tokenizer
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.finetuning.finetune import FinetunedRun


def loaded(tmp_path, model, **settings):
    settings = settings_of(model.task, **{"sequence_length": 15, **settings})
    kbert.save_pretrained(model, tmp_path / "model", tokenizer=tiny_tokenizer(), settings=settings)
    return kbert.load_pretrained(tmp_path / "model")


def test_defaults():
    pipeline = kbert.build_pipeline(kbert.BertClassifier(tiny_config(), num_labels=3), tiny_tokenizer())
    settings = pipeline.settings()
    assert (settings["labels"], settings["sequence_length"], settings["pair"]) == (["0", "1", "2"], 19, False)
    long = kbert.BertPretrainer(tiny_config(max_sequence_length=200))
    settings = kbert.build_pipeline(long, tiny_tokenizer()).settings()
    assert (settings["sequence_length"], settings["max_masks"], settings["top_k"]) == (128, 8, 5)


def test_what_was_stored_is_used_and_arguments_replace_it(tmp_path):
    model = loaded(tmp_path, kbert.BertClassifier(tiny_config()), labels=["a", "b"], pair=True)
    pipeline = kbert.build_pipeline(model)
    assert pipeline.settings() == {
        "labels": ["a", "b"],
        "sequence_length": 15,
        "pair": True,
        "window_pooling": None,
        "tokenizer": tiny_tokenizer().settings(),
    }
    assert pipeline.tokenizer is model.pretrained.tokenizer
    other = kbert.build_pipeline(model, tiny_tokenizer(), labels=["x", "y"], sequence_length=9, pair=False, name="mine")
    assert other.name == "mine" and list(other.input) == ["text"]
    settings = other.settings()
    assert (settings["labels"], settings["sequence_length"], settings["pair"]) == (["x", "y"], 9, False)


def test_a_stored_length_beyond_the_position_table_is_cut(tmp_path):
    model = loaded(tmp_path, kbert.BertRegressor(tiny_config()))
    settings = dataclasses.replace(model.pretrained.settings, sequence_length=512)
    model.pretrained = dataclasses.replace(model.pretrained, settings=settings)
    assert kbert.build_pipeline(model).preprocessor.sequence_length == 19


def test_questions_have_windows_that_overlap_saved_or_not(tmp_path):
    model = kbert.BertSpanExtractor(tiny_config(max_sequence_length=500))
    assert kbert.build_pipeline(model, tiny_tokenizer()).preprocessor.sequence_length == 384
    kbert.save_pretrained(model, tmp_path / "span", tokenizer=tiny_tokenizer())
    assert kbert.build_pipeline(kbert.load_pretrained(tmp_path / "span")).preprocessor.sequence_length == 384
    kbert.save_pretrained(
        kbert.BertEncoder(tiny_config(max_sequence_length=300)), tmp_path / "encoder", tokenizer=tiny_tokenizer()
    )
    for length, more in ((300, {}), (200, {"sequence_length": 200})):
        model = kbert.load_pretrained(tmp_path / "encoder", task="span", **more)
        assert kbert.build_pipeline(model).preprocessor.sequence_length == length


def test_errors(tmp_path):
    model, tokenizer = kbert.BertClassifier(tiny_config()), tiny_tokenizer()
    wrong_inputs(
        lambda arguments: kbert.build_pipeline(*arguments),
        ((model,), "pass `tokenizer`"),
        ((model, kbert.BertTokenizer(VOCABULARY[:-1])), r"\(25\). Received: 24 tokens"),
    )
    wrong_inputs(
        lambda arguments: kbert.build_pipeline(model, tokenizer, **arguments),
        ({"labels": ["a", "b", "c"]}, "`labels` must be 2 names"),
        ({"sequence_length": 20}, "position table, 19. Received: 20"),
        ({"sequence_length": 4, "pair": True}, "at least 5"),
    )
    pipeline = kbert.build_pipeline(model, tokenizer)
    run = FinetunedRun({}, [], pipeline, None)
    for other, received in [
        (None, "NoneType"),
        ([model], "list"),
        (pipeline, "Pipeline; give its `model`"),
        (run, "FinetunedRun; give its `pipeline.model`"),
    ]:
        with pytest.raises(TypeError, match=f"^build_pipeline: `model` must be .* Received: {received}$"):
            kbert.build_pipeline(other, tokenizer)
    with pytest.raises(ValueError, match="^`top_k` must be at most the vocabulary's 25 tokens"):
        kbert.build_pipeline(kbert.BertPretrainer(tiny_config()), tokenizer, top_k=26)
