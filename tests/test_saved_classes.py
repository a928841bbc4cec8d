"""A process that has imported kbert, and nothing of it, loads every saved model and pipeline."""

import keras
import numpy as np
import pytest
from helpers.run_python import run_python
from helpers.tiny_bert import tiny_config, tiny_tokenizer

import kbert

MODELS = {
    "encoder": lambda c: kbert.BertEncoder(c),
    "pretraining": lambda c: kbert.BertPretrainer(c),
    "classification": lambda c: kbert.BertClassifier(c, num_labels=3),
    "regression": lambda c: kbert.BertRegressor(c),
    "span": lambda c: kbert.BertSpanExtractor(c),
    "tagging": lambda c: kbert.BertTagger(c, num_labels=3),
    "multiple_choice": lambda c: kbert.BertMultipleChoice(c),
}
PROGRAM = """
import json, os, sys
{imports}
def load(path):  # in a process of its own, so that no class was imported for the file before
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        own = sorted(name for name in sys.modules if name.startswith("kbert.") and name.count(".") > 1)
        try:
            model = keras.models.load_model(path)
            result = [own, type(model).__name__, float(sum(abs(w).sum() for w in model.get_weights())), model.compiled]
        except BaseException as error:
            result = [own, repr(error), 0, False]
        os.write(writing, json.dumps(result).encode()[:4000])
        os._exit(0)
    os.waitpid(child, 0)
    return json.loads(os.read(reading, 5000))
print(json.dumps([load(path) for path in sys.argv[1:]]))
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Path of a file -> what is to be in it."""
    folder, expected = tmp_path_factory.mktemp("saved"), {}
    for name, make in MODELS.items():
        model = make(tiny_config(num_layers=1))
        if model.default_loss():
            model.compile()
        for thing in (model, kbert.build_pipeline(model, tiny_tokenizer())):
            path = folder / f"{name}-{len(expected)}.keras"
            thing.save(path)
            weights = sum(np.abs(w).sum() for w in thing.get_weights())
            expected[str(path)] = [type(thing).__name__, pytest.approx(float(weights), rel=1e-5), thing.compiled]
    return expected


@pytest.mark.parametrize(
    "imports", ["import kbert, keras", "import keras, kbert", "import kbert\nfrom tensorflow import keras"]
)
def test_load_model(files, imports):
    files = files if imports == "import kbert, keras" else dict(list(files.items())[-1:])
    for (own, *found), expected in zip(
        run_python(PROGRAM.format(imports=imports), *files), files.values(), strict=True
    ):
        assert own == [] and found == expected


def test_a_class_that_is_there_stays():
    table = keras.saving.get_custom_objects()
    assert table["kbert>BertClassifier"] is kbert.BertClassifier
    kbert.saved_classes.register_saved_classes()
    assert table["kbert>BertClassifier"] is kbert.BertClassifier
