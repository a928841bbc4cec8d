"""pipeline.fit of masked language models: strings in every form, masks of their own each epoch, all by the seed."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from helpers.run_python import run_python
from helpers.slow_but import slow_but
from helpers.tiny_corpus import make_documents, make_pretrainer, make_tokenizer

import kbert
from kbert.corpus.write_records import write_records
from kbert.pretraining.dataset import pretraining_dataset
from kbert.stateless_random import fold_in, permutation

DOCUMENTS = make_documents(30, seed=2, sizes=(1, 3), words=(2, 5))
TEXTS = [sentence for document in DOCUMENTS for sentence in document]
S, P, B = 32, 5, 8


def build(next_sentence=True, **masking):
    model = make_pretrainer(S, hidden_dropout=0.0, attention_dropout=0.0)
    if not next_sentence:
        model = kbert.BertPretrainer(model.encoder, next_sentence=False)
    pipeline = kbert.build_pipeline(model, make_tokenizer(), sequence_length=S, top_k=2, masking=masking)
    pipeline.compile(kbert.AdamW(0.01))
    return pipeline


def batches_of(pipeline, x, *labels, step=0, **options):
    options = {"batch_size": B, "next_sentence": True, "step": None if step is None else lambda: step} | options
    return list(pipeline.preprocessor.training_batches(x, *labels, **options).as_numpy_iterator())


def rows_of(batches):
    """Rows of non-zero weight as hashable values, in any order."""
    rows = []
    for inputs, labels, weights in batches:
        real = weights["mlm_logits"].sum(1) > 0
        columns = (inputs["token_ids"], inputs["mask_positions"], labels["mlm_logits"])
        rows += [tuple(np.concatenate(row).tolist()) for row in zip(*(c[real] for c in columns), strict=True)]
    return sorted(rows)


@functools.cache
def masked_rows(seed, *steps):
    """What a new pipeline makes of TEXTS in epochs that begin at these steps: one dataset, read again in each epoch."""
    step, pipeline = [0], build(seed=seed, max_predictions=P)
    batches = pipeline.preprocessor.training_batches(
        TEXTS, batch_size=B, next_sentence=True, step=None if steps == (None,) else lambda: step[0]
    )
    rows = []
    for step[0] in steps:
        rows.append(rows_of(batches.as_numpy_iterator()))
    return rows


def in_records(documents, directory):
    records = write_records(documents, make_tokenizer(), directory, held_out=0.0)
    order = permutation(fold_in(0, 0), len(documents)).numpy()
    return records, [documents[number] for number in order]


def test_rows_and_masks_are_those_of_pretraining_dataset(tmp_path):
    """Records shuffle documents: those of the epoch are given in their order."""
    options = {"batch_size": B, "sequence_length": S, "max_predictions": P, "seed": 3}
    records, documents = in_records(DOCUMENTS, tmp_path / "documents")
    own = batches_of(build(seed=3, max_predictions=P), documents)
    expected = list(pretraining_dataset(records, make_tokenizer(), epochs=1, **options))
    assert len(expected) > 2
    for one, other in zip(own[: len(expected)], expected, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, one, other)
    records, texts = in_records([[text] for text in TEXTS], tmp_path / "texts")
    own = batches_of(build(seed=3, max_predictions=P), [text for [text] in texts])
    options |= {"next_sentence": False, "short_sequence_rate": 0.0, "batch_size": 1, "epochs": 1}
    expected = pretraining_dataset(records, make_tokenizer(), **options).as_numpy_iterator()
    assert rows_of(own) == rows_of(expected)


def test_each_epoch_has_masks_of_its_own_and_the_seed_decides_all():
    one, later = masked_rows(3, 0, 7)
    assert one == masked_rows(3, 0)[0]
    assert one != later
    assert one != masked_rows(4, 0)[0]
    assert masked_rows(3, None) == masked_rows(4, None)


def stream(texts=tuple(TEXTS)):
    """Batches of texts whose number nobody knows."""
    batches = tf.data.Dataset.from_generator(lambda: (texts[n : n + 4] for n in range(0, len(texts), 4)), tf.string)
    return batches.map(lambda text: tf.ensure_shape(text, [None]))


@pytest.mark.parity
@pytest.mark.parametrize("split", slow_but((0.0,), (0.0, 0.25)))
@pytest.mark.usefixtures("eagerly")
def test_data_frames(split):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"text": TEXTS[:16], "text_pair": TEXTS[1:17], "rest": range(16)})
    labels = {"nsp_logits": [n % 2 for n in range(16)]}
    one, other = build(seed=1), build(seed=1)
    options = {"epochs": 2 if split else 1, "batch_size": B, "verbose": 0, "sample_weight": [1.0, 0.5] * 8}
    options |= {"validation_split": split}
    columns = {"text": TEXTS[:16], "text_pair": TEXTS[1:17]}
    assert one.fit(table, labels, **options).history == other.fit(columns, labels, **options).history


def test_what_is_no_single_batch_and_no_data_is_refused():
    pipeline = build(seed=1)
    for batches in (DOCUMENTS, stream()):
        with pytest.raises(TypeError, match="single batch"):
            pipeline.train_on_batch(batches)
    with pytest.raises(TypeError, match="tf.data.Dataset"):
        pipeline.fit(iter([TEXTS]))
    with pytest.raises(ValueError, match="validation_data"):
        pipeline.fit(DOCUMENTS, validation_split=0.5)


REPLICAS = """
import json, sys
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
sys.path.insert(0, sys.argv[1])
from test_fit_on_masks import DOCUMENTS, TEXTS, build, kbert

def losses(**compiled):
    pipeline = build(seed=1)
    pipeline.compile(kbert.AdamW(0.01), **compiled)
    options = {"batch_size": 8, "epochs": 2, "verbose": 0}
    return pipeline.fit(TEXTS, validation_data=DOCUMENTS[:9], **options).history

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    two = losses()
result = {"replicas": strategy.num_replicas_in_sync, "two": two, "one": losses(), "xla": losses(jit_compile=True)}
print(json.dumps(result))
"""


@pytest.mark.slow  # of a model by hand: test_masking_in_a_model.py
def test_two_replicas_and_xla_train_as_one_device_does():
    result = run_python(REPLICAS, __file__.rpartition("/")[0])
    assert result["replicas"] == 2
    for other in ("two", "xla"):
        for name in ("loss", "val_loss"):
            np.testing.assert_allclose(result[other][name], result["one"][name], rtol=1e-3)


def check_settings_are_stored(pipeline, folder):
    kbert.save_pretrained(pipeline, folder / "saved")
    stored = kbert.build_pipeline(folder / "saved").preprocessor.masking
    assert stored == {"whole_word": True, "mask_rate": 0.3}


def test_its_settings_are_stored(tmp_path):
    check_settings_are_stored(build(next_sentence=False, whole_word=True, mask_rate=0.3), tmp_path)
