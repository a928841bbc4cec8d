"""kbert's directories in other libraries, and theirs in kbert: worst differences, relative to the largest value."""

import keras
import numpy as np

import kbert
from helpers.model_settings import settings_of
from helpers.parity import measure_parity
from helpers.reference_outputs import OUTPUTS
from helpers.stored_models import MODELS
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer
from kbert.weights import from_keras_hub, load_adapter, save_adapter, to_keras_hub

TEXTS = ["The film is good.", "A very bad film!", "paris", "Good é 中?"]
PAIRS = ["Never bad.", "the capital of France", "", "very very good"]
LENGTH = 17
POOLINGS = ("mean", "max", "cls")
AUTO = {  # kbert's model → transformers' class, by which a user opens it
    "encoder": "AutoModel",
    "pretraining": "AutoModelForPreTraining",
    "masked_lm": "AutoModelForMaskedLM",
    "next_sentence": "AutoModelForNextSentencePrediction",
    "classification": "AutoModelForSequenceClassification",
    "regression": "AutoModelForSequenceClassification",
    "span": "AutoModelForQuestionAnswering",
    "tagging": "AutoModelForTokenClassification",
    "multiple_choice": "AutoModelForMultipleChoice",
    "similarity": "AutoModel",
}
_OUTPUTS = {"sequence_output": ("last_hidden_state",), "pooled_output": ("pooler_output",), **OUTPUTS}


def make(name, **fields):
    """A model with random weights, biases and LayerNorms included."""
    arguments = {"activation": "gelu_erf", "max_sequence_length": 40} | fields
    return randomise(MODELS[name](tiny_config(**arguments)), scale=0.3)


def save(model, directory, **fields):
    """Saves with a length, a pair and labels that are not the defaults."""
    labels = [f"label {i}" for i in range(model.num_labels)] if model.num_labels else None
    settings = settings_of(model.task, LENGTH, **{"pair": True, "labels": labels, **fields})
    kbert.save_pretrained(model, directory, tokenizer=tiny_tokenizer(), settings=settings)
    return directory


def open_there(model, directory):
    """transformers' model and tokenizer of a directory, opened as they are, and what its loading reports."""
    import transformers

    name = "AutoModelForCausalLM" if model.task == "masked_lm" and model.config.causal else AUTO[model.task]
    theirs, info = getattr(transformers, name).from_pretrained(directory, output_loading_info=True)
    return theirs.eval(), transformers.AutoTokenizer.from_pretrained(directory), info


def difference(model, theirs, tokenizer):
    """The worst difference of an output for texts of different lengths, at positions that are not padding."""
    import torch

    texts, pairs = (TEXTS, PAIRS) if model.config.num_segments > 1 else (TEXTS, None)
    rows = tokenizer(texts, pairs, padding="max_length", truncation=True, return_tensors="pt")
    assert rows["input_ids"].shape[1] == tokenizer.model_max_length == LENGTH
    assert ("token_type_ids" in rows) == (model.config.num_segments > 1)
    if model.task == "multiple_choice":  # two questions with two choices
        rows = {name: value.reshape(2, 2, -1) for name, value in rows.items()}
    with torch.no_grad():
        found = theirs(**rows)
    batch = {"token_ids": rows["input_ids"], "padding_mask": rows["attention_mask"]}
    batch["segment_ids"] = rows.get("token_type_ids", torch.zeros_like(rows["input_ids"]))
    batch = {name: value.numpy().astype("int32") for name, value in batch.items()}
    positions = np.tile(np.arange(5, dtype="int32"), (len(TEXTS), 1))
    if "mask_positions" in model.input:
        batch["mask_positions"] = positions
    outputs, worst = model(batch, training=False), 0.0
    if "embedding" in outputs:
        outputs = {"sequence_output": model.encoder(batch, training=False)["sequence_output"]}
    for name, value in outputs.items():
        ours = keras.ops.convert_to_numpy(value)
        other = next(found[key].numpy() for key in _OUTPUTS[name] if key in found)
        if name == "mlm_logits":
            other = np.take_along_axis(other, positions[:, :, None], axis=1)
        if name == "score":
            other = other[:, 0]
        if name in model.token_outputs or name == "sequence_output":
            real = batch["padding_mask"].astype(bool)
            ours, other = ours[real], other[real]
        worst = max(worst, relative(ours, other))
    return worst


def relative(ours, theirs):
    ours, theirs = np.asarray(ours, "float64"), np.asarray(theirs, "float64")
    assert ours.shape == theirs.shape and np.abs(theirs).max() > 0.05
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def train_there(theirs, tokenizer):
    """A step of training in transformers, on every weight."""
    import torch

    optimizer = torch.optim.SGD(theirs.parameters(), 0.01)
    with torch.enable_grad():
        rows = tokenizer(TEXTS, PAIRS, padding="max_length", truncation=True, return_tensors="pt")
        if type(theirs).__name__ == "BertForMultipleChoice":
            rows = {name: value.reshape(2, 2, -1) for name, value in rows.items()}
        outputs = theirs(**rows)
        sum(value.square().mean() for value in outputs.values() if value.dtype == torch.float32).backward()
    optimizer.step()


# The columns of the table.


def to_transformers(name, place):
    model = make(name)
    return difference(model, *open_there(model, save(model, place / "ours"))[:2])


def from_transformers(name, place):
    """kbert → transformers → a step there → its save_pretrained → kbert."""
    model = make(name)
    theirs, tokenizer, _ = open_there(model, save(model, place / "ours"))
    train_there(theirs, tokenizer)
    for part in (theirs, tokenizer):
        part.save_pretrained(place / "theirs")
    again = kbert.load_pretrained(place / "theirs")
    assert again.task == model.task
    return difference(again, theirs, tokenizer)


def through_google(name, place):
    """Google's files → kbert → Google's files; both compared with Google's forward pass in NumPy."""
    model = randomise(MODELS[name](tiny_config(max_sequence_length=40)), scale=0.3)
    kbert.save_pretrained(model, place / "google", format="google", tokenizer=tiny_tokenizer())
    loaded = kbert.load_pretrained(place / "google")
    kbert.save_pretrained(loaded, place / "again", format="google")
    return max(measure_parity(loaded, place / "google").worst, measure_parity(loaded, place / "again").worst)


def through_keras_hub(name, place):
    """kbert → a preset that keras_hub wrote → keras_hub and kbert."""
    model = randomise(MODELS[name](tiny_config(max_sequence_length=40)), scale=0.3)
    theirs, tokenizer = to_keras_hub(model, tiny_tokenizer())
    theirs.save_to_preset(str(place / "preset"))
    if name == "encoder":
        tokenizer.save_to_preset(str(place / "preset"))
    again = from_keras_hub(place / "preset")
    return max(measure_parity(each, place / "preset").worst for each in (model, again))


def through_sentence_transformers(place, pooling="mean", normalize=True):
    """kbert's embeddings → SentenceTransformer's → its save_pretrained → kbert's."""
    from sentence_transformers import SentenceTransformer

    from kbert.models import BertSentenceEncoder

    encoder = kbert.BertEncoder(tiny_config(activation="gelu_erf", max_sequence_length=40), pooler=False)
    model = randomise(BertSentenceEncoder(encoder, pooling=pooling, normalize=normalize), scale=0.3)
    save(model, place / "ours")
    theirs = SentenceTransformer(str(place / "ours"), device="cpu")
    assert theirs.max_seq_length == LENGTH
    expected = theirs.encode(TEXTS)
    theirs.save_pretrained(str(place / "theirs"))
    found = [kbert.build_pipeline(kbert.load_pretrained(place / name)) for name in ("ours", "theirs")]
    assert [pipeline.preprocessor.sequence_length for pipeline in found] == [LENGTH, LENGTH]
    return max(relative(pipeline.predict(TEXTS, verbose=0)["embedding"], expected) for pipeline in found)


def through_peft(name, place):
    """kbert's adapter in PEFT on the same base, and loaded by kbert."""
    import peft

    base = make(name)
    theirs, tokenizer, _ = open_there(base, save(base, place / "base"))
    model = type(base).from_config(base.get_config())
    model.set_weights(base.get_weights())
    model.enable_lora(2, alpha=3.0, layers=("query", "value", "feed_forward/output"))
    rng = np.random.default_rng(1)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(0, 0.3, variable.shape))
    save_adapter(model, place / "adapter")
    again = kbert.load_pretrained(place / "base")
    load_adapter(again, place / "adapter")
    theirs = peft.PeftModel.from_pretrained(theirs, place / "adapter").eval().base_model.model
    return max(difference(each, theirs, tokenizer) for each in (model, again))
