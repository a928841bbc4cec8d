"""The format "kerashub": presets of KerasHub."""

import keras
from keras import ops

from kbert.weights.formats.export_tensors import check_head, check_pooler, check_single_label, export_tensors
from kbert.weights.formats.format import Format
from kbert.weights.formats.kbert_settings import NAME, write_kbert_settings
from kbert.weights.formats.kerashub.names import CONFIG_NAMES, NAMES
from kbert.weights.formats.kerashub.read import (
    CONFIG,
    HEAD,
    PREPROCESSOR,
    TASK,
    TOKENIZER,
    is_kerashub_preset,
    read_kerashub_preset,
)
from kbert.weights.formats.kerashub.weights_file import WEIGHTS, kerashub_model

_PREPROCESSORS = {
    "masked_lm": "BertMaskedLMPreprocessor",
    "classification": "BertTextClassifierPreprocessor",
    "regression": "BertTextClassifierPreprocessor",
}


class KerasHubFormat(Format):
    """Presets of KerasHub: BertBackbone, BertMaskedLM, and BertTextClassifier (with one class for regression).

    KerasHub itself is imported to write a preset, and to read the weights of older Keras. Weights and vocabulary are
    written exactly, but KerasHub's tokenizer treats rare characters in its own way (docs/parity.md).
    """

    name = "kerashub"
    title = f"a KerasHub preset ({CONFIG}, {WEIGHTS})"
    files = (CONFIG, TASK, PREPROCESSOR, TOKENIZER, "metadata.json", "*.weights.h5", "assets", NAME)

    def recognises(self, path):
        return is_kerashub_preset(path.parent if path.is_file() else path)

    def read(self, path, vocabulary=None):
        return read_kerashub_preset(path.parent if path.is_file() else path, vocabulary)

    def write(self, directory, model, settings, vocabulary, *, made_by=None):
        hub_model = build_kerashub_model(model, settings, vocabulary)
        hub_model.save_to_preset(str(directory))
        if vocabulary is not None and model.task == "encoder":
            kerashub_tokenizer(settings, vocabulary).save_to_preset(str(directory))
        write_kbert_settings(directory, settings)

    def reference_outputs(self, model, path, batch):
        import keras_hub

        if model.task == "masked_lm":
            theirs = keras_hub.models.BertMaskedLM.from_preset(str(path), preprocessor=None)
        elif model.task in ("classification", "regression"):
            theirs = keras_hub.models.BertTextClassifier.from_preset(str(path), preprocessor=None)
        else:
            theirs = keras_hub.models.BertBackbone.from_preset(str(path))
        backbone = getattr(theirs, "backbone", theirs)
        layers = ["embeddings_dropout"] + [f"transformer_layer_{i}" for i in range(model.config.num_layers)]
        states = keras.Model(backbone.input, [backbone.get_layer(name).output for name in layers])
        fed = {**batch, "padding_mask": batch["padding_mask"].astype("int32")}
        plain = {name: fed[name] for name in backbone.input}
        outputs = {
            "hidden_states": [ops.convert_to_numpy(x) for x in states(plain)],
            "pooled_output": ops.convert_to_numpy(backbone(plain)["pooled_output"]),
        }
        if model.task != "encoder":
            name = next(iter(model.output))
            values = ops.convert_to_numpy(theirs(fed if name == "mlm_logits" else plain))
            outputs[name] = values[:, 0] if name == "score" else values
        return f"keras_hub {keras_hub.__version__}", outputs


def build_kerashub_model(model, settings, vocabulary):
    """KerasHub's model with the weights of one of kbert's and, where it takes one, a preprocessor."""
    fields = CONFIG_NAMES.from_kbert(model.config)
    tensors = export_tensors(NAMES, model)
    check_single_label("kerashub", model)
    check_head("kerashub", model, HEAD["head_activation"], HEAD["head_layer_norm_epsilon"])
    check_pooler("kerashub", model, needed=True, reason="BertBackbone always has one")
    hub_model = kerashub_model(
        fields,
        model.task,
        num_classes=model.num_labels or 1,
        preprocessor=_preprocessor(model.task, settings, vocabulary),
        dropout=getattr(model, "dropout", 0.1),
    )
    for variable in hub_model.weights:
        shape, values = tensors.pop(variable.path)
        if tuple(variable.shape) != shape:
            raise ValueError(f"{variable.path}: expected {shape}. Received: {variable.shape}, of this keras_hub")
        variable.assign(values())
    return hub_model


def kerashub_tokenizer(settings, vocabulary):
    import keras_hub

    wanted = settings.tokenizer
    if isinstance(wanted["special_tokens_in_text"], list):
        raise ValueError(
            "KerasHub's tokenizer has no special tokens of one's own. Expected True or False as "
            f"`special_tokens_in_text`. Received: {wanted['special_tokens_in_text']}"
        )
    strip = wanted["lowercase"] if wanted["strip_accents"] is None else wanted["strip_accents"]
    return keras_hub.models.BertTokenizer(
        vocabulary=list(vocabulary),
        lowercase=wanted["lowercase"],
        strip_accents=strip,
        split_on_cjk=wanted["split_on_cjk"],
        special_tokens_in_strings=wanted["special_tokens_in_text"],
    )


def _preprocessor(task, settings, vocabulary):
    if vocabulary is None or task not in _PREPROCESSORS:
        return None
    import keras_hub

    preprocessor = getattr(keras_hub.models, _PREPROCESSORS[task])
    return preprocessor(kerashub_tokenizer(settings, vocabulary), sequence_length=settings.sequence_length)


FORMAT = KerasHubFormat()
