"""A process that has imported kbert, and nothing of it but the registry of tasks, loads every saved model."""

import keras
import numpy as np
import pytest
from helpers.run_python import run_python
from helpers.tiny_bert import tiny_config, tiny_tokenizer

import kbert

PROGRAM = """
import json, sys
{imports}
own = sorted(name for name in sys.modules if name.startswith("kbert.") and name.count(".") > 1)
models = map(keras.models.load_model, sys.argv[1:])
weights = [[type(m).__name__, float(sum(abs(w).sum() for w in m.get_weights())), m.compiled] for m in models]
print(json.dumps([own, weights]))
"""
KERAS_LAST = "import kbert, keras"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Path of a file -> what is to be in it; models that share few classes."""
    folder, expected = tmp_path_factory.mktemp("saved"), {}
    choices, tagger = (
        kbert.BertMultipleChoice(tiny_config(num_layers=1)),
        kbert.BertTagger(tiny_config(num_layers=1), 3),
    )
    choices.compile()
    things = [kbert.BertPretrainer(tiny_config(num_layers=1)), choices, kbert.build_pipeline(tagger, tiny_tokenizer())]
    for number, thing in enumerate(things):
        thing.save(folder / f"{number}.keras")
        weights = float(sum(np.abs(w).sum() for w in thing.get_weights()))
        expected[str(folder / f"{number}.keras")] = [
            type(thing).__name__,
            pytest.approx(weights, rel=1e-5),
            thing.compiled,
        ]
    return expected


KERAS_FIRST = ("import keras, kbert", "import kbert\nfrom tensorflow import keras")


@pytest.mark.parametrize("imports", [KERAS_LAST, *(pytest.param(one, marks=pytest.mark.slow) for one in KERAS_FIRST)])
def test_load_model(files, imports):
    files = files if imports == KERAS_LAST else dict(list(files.items())[1:2])
    own, found = run_python(PROGRAM.format(imports=imports), *files)
    assert own == ["kbert.pipelines.registry"] and found == list(files.values())


def test_a_class_that_is_there_stays():
    own, table = kbert.BertClassifier, keras.saving.get_custom_objects()
    assert table["kbert>BertClassifier"] is own
    kbert.saved_classes.register_saved_classes()
    assert table["kbert>BertClassifier"] is own
