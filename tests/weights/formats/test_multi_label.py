"""A multi-label classifier stays one in the formats that can say so, and is refused by the others."""

import numpy as np
import pytest
from helpers.stored_models import assert_same_weights, load
from helpers.tiny_bert import TEXTS, randomise, tiny_config, tiny_tokenizer

import kbert


@pytest.fixture(scope="module")
def pipeline():
    model = randomise(kbert.BertClassifier(tiny_config(), num_labels=3, multi_label=True))
    return kbert.build_pipeline(model, tiny_tokenizer(), sequence_length=9, labels=["a", "b", "c"])


@pytest.mark.parametrize("format", ["kbert", "huggingface"])
@pytest.mark.usefixtures("eagerly")
def test_it_comes_back(pipeline, format, tmp_path):
    kbert.save_pretrained(pipeline, tmp_path / "it", format=format)
    loaded = load(tmp_path / "it")
    assert loaded.multi_label and loaded.pretrained.settings.task.labels == ("a", "b", "c")
    assert_same_weights(loaded, pipeline.model)
    found, expected = (each.predict(TEXTS, verbose=0) for each in (kbert.build_pipeline(loaded), pipeline))
    assert found.keys() == expected.keys()
    np.testing.assert_allclose(found["probabilities"], expected["probabilities"], atol=1e-6)


@pytest.mark.parametrize("format", ["google", "kerashub"])
def test_it_is_refused(pipeline, format, tmp_path):
    with pytest.raises(ValueError, match=f'format="{format}" cannot hold a multi-label classifier'):
        kbert.save_pretrained(pipeline, tmp_path / "it", format=format)
    assert not list(tmp_path.iterdir())
