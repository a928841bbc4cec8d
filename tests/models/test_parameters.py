"""Numbers of parameters (paper.md C1), and the values they start with."""

import keras
import numpy as np
import pytest
from helpers.batches import config
from helpers.slow_but import slow_but

from kbert.config import BertConfig
from kbert.models.classifier import BertClassifier
from kbert.models.encoder import BertEncoder
from kbert.models.pretrainer import BertPretrainer

PUBLISHED = {  # num_layers, hidden_dim, vocabulary: encoder with pooler
    (3, 768, 30522): 45_691_392,
    (6, 768, 30522): 66_955_008,
    (12, 768, 30522): 109_482_240,
    (12, 1024, 30522): 183_987_200,
    (24, 1024, 30522): 335_141_888,
    (12, 768, 28996): 108_310_272,
    (24, 1024, 28996): 333_579_264,
}
WITH_HEADS = {"base": 110_106_428, "large": 336_226_108}
STDDEV_OF_CUT_NORMAL = 0.8796 * 0.02


def count(make):
    """Parameters of a model, without memory for their values: variables made in a stateless scope stay empty."""
    with keras.StatelessScope():
        return sum(int(np.prod(v.shape)) for v in make().trainable_variables)


@pytest.mark.slow  # of base: test_with_the_pretraining_heads
@pytest.mark.parametrize("sizes", PUBLISHED, ids=str)
def test_published_encoders(sizes):
    num_layers, hidden_dim, vocabulary_size = sizes
    architecture = BertConfig(
        num_layers=num_layers,
        hidden_dim=hidden_dim,
        num_heads=hidden_dim // 64,
        intermediate_dim=4 * hidden_dim,
        vocabulary_size=vocabulary_size,
    )
    assert count(lambda: BertEncoder(architecture)) == PUBLISHED[sizes]


@pytest.mark.parametrize("size", slow_but(("base",), WITH_HEADS))
def test_with_the_pretraining_heads(size):
    assert count(lambda: BertPretrainer(BertConfig.from_size(size))) == WITH_HEADS[size]


@pytest.mark.parametrize("size", slow_but(("tiny",), ("tiny", "mini", "small", "medium")))
def test_miniatures_follow_the_formula(size):
    c = BertConfig.from_size(size)
    h = c.hidden_dim
    expected = (c.vocabulary_size + 512 + 2) * h + 2 * h + c.num_layers * (12 * h * h + 13 * h) + h * h + h
    assert count(lambda: BertEncoder(c)) == expected


def test_counting_without_values_equals_counting_values():
    assert count(lambda: BertPretrainer(config(), tied=False)) == BertPretrainer(config(), tied=False).count_params()


def test_untied_table_adds_itself():
    tied, untied = (BertPretrainer(config(), tied=t).count_params() for t in (True, False))
    assert untied - tied == 37 * 12


def test_values_at_the_start():
    """Kernels and tables from the cut normal, each from its own draw; biases 0; LayerNorm 1 and 0."""
    models = BertPretrainer(config(hidden_dim=60, intermediate_dim=100), tied=False), BertClassifier(config(), 7)
    seen = set()
    for variable in [v for model in models for v in model.trainable_variables]:
        value = variable.numpy()
        if variable.name in ("kernel", "embeddings", "output_embeddings"):
            assert 0 < np.abs(value).max() <= 0.04 + 1e-7, variable.path
            deviations = abs(value.std() / STDDEV_OF_CUT_NORMAL - 1) * np.sqrt(2 * value.size)
            assert deviations < 5, variable.path
            first = value.flat[:3].tobytes()
            assert first not in seen, variable.path
            seen.add(first)
        else:
            assert variable.name in ("bias", "output_bias", "beta", "gamma"), variable.path
            assert np.all(value == (variable.name == "gamma")), variable.path


def test_the_deviation_is_the_config_s():
    for wanted in (0.1, 0.5):
        for variable in BertClassifier(config(initializer_stddev=wanted)).trainable_variables:
            if variable.name in ("kernel", "embeddings") and variable.numpy().size > 100:
                assert 0.7 * wanted < variable.numpy().std() < 1.1 * wanted, variable.path


def test_two_models_start_differently_and_a_seed_repeats():
    def table():
        return BertEncoder(config()).token_embedding.embeddings.numpy()

    assert not np.array_equal(table(), table())
    keras.utils.set_random_seed(11)
    first = table()
    keras.utils.set_random_seed(11)
    np.testing.assert_array_equal(first, table())


def test_no_two_variables_start_alike():
    """Also where all sizes are the same: Keras draws the seed of an initialiser when it is made."""
    sizes = dict(vocabulary_size=32, hidden_dim=32, intermediate_dim=32, max_sequence_length=32, num_heads=2)
    model = BertPretrainer(BertConfig(num_layers=2, **sizes), tied=False)
    values = [value.numpy().ravel() for value in model.trainable_variables if value.numpy().std() > 0]
    assert len(values) > 15
    assert len({value.tobytes() for value in values}) == len(values)
