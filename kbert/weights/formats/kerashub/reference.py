"""What KerasHub computes from its preset."""

import keras
from keras import ops


def kerashub_outputs(model, path, batch):
    """See `kbert.weights.formats.format.Format.reference_outputs`."""
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
    found = {
        "hidden_states": [ops.convert_to_numpy(x) for x in states(plain)],
        "pooled_output": ops.convert_to_numpy(backbone(plain)["pooled_output"]),
    }
    if model.task != "encoder":
        name = next(iter(model.output))
        values = ops.convert_to_numpy(theirs(fed if name == "mlm_logits" else plain))
        found[name] = values[:, 0] if name == "score" else values
    return f"keras_hub {keras_hub.__version__}", found
