"""What the library of each format computes from the files of a checkpoint, under kbert's names of outputs.

A function returns the library's name and version, ``hidden_states``, a list, ``pooled_output`` where there is one, and
the outputs of the heads.
"""

import keras
import numpy as np
from keras import ops

from helpers.google_reference import google_forward
from kbert.files import read_json
from kbert.weights.description import ModelDescription
from kbert.weights.formats import google, huggingface
from kbert.weights.formats.huggingface_config import transformers_class

OUTPUTS = {  # kbert's output → transformers', the first that its class has
    "mlm_logits": ("prediction_logits", "logits"),
    "nsp_logits": ("seq_relationship_logits", "logits"),
    "logits": ("logits",),
    "score": ("logits",),
    "start_logits": ("start_logits",),
    "end_logits": ("end_logits",),
}


def _google(model, path, batch):
    tensors = google.read(path).tensors
    outputs = google_forward(tensors.read, tensors.tensors, read_json(tensors.path.parent / google.CONFIG), batch)
    if model.task == "regression":
        outputs["score"] = outputs["logits"][:, 0]
    return "a NumPy transcription of google-research/bert", outputs


def _huggingface(model, path, batch, adapter=None):
    """With an adapter, as PEFT puts it onto the model."""
    import torch
    import transformers

    their_class = getattr(transformers, transformers_class(ModelDescription.from_model(model)))
    options = {"add_pooling_layer": False} if model.task == "encoder" and model.encoder.pooler is None else {}
    directory = path.parent if path.is_file() else path
    configs = (directory / huggingface.CONFIG, directory / huggingface.OLD_CONFIG)
    config = transformers.BertConfig.from_json_file(next(p for p in configs if p.is_file()))
    theirs = their_class.from_pretrained(directory, config=config, **options).eval()
    if adapter is not None:
        import peft

        theirs = peft.PeftModel.from_pretrained(theirs, adapter).eval().base_model.model
    arguments = {
        "input_ids": torch.tensor(batch["token_ids"], dtype=torch.long),
        "token_type_ids": torch.tensor(batch["segment_ids"], dtype=torch.long),
        "attention_mask": torch.tensor(batch["padding_mask"], dtype=torch.long),
    }
    with torch.no_grad():
        outputs = theirs(**arguments, output_hidden_states=True)
        rows = {name: value.flatten(0, -2) for name, value in arguments.items()}
        pooled = getattr(theirs, "bert", theirs)(**rows).pooler_output
    shape = batch["token_ids"].shape
    expected = {"hidden_states": [x.numpy().reshape(*shape, -1) for x in outputs.hidden_states]}
    if pooled is not None:
        expected["pooled_output"] = pooled.numpy()
    for ours, names in OUTPUTS.items():
        if ours in model.output:
            expected[ours] = next(outputs[name].numpy() for name in names if name in outputs)
    if "mlm_logits" in expected:
        positions = batch["mask_positions"][:, :, None]
        expected["mlm_logits"] = np.take_along_axis(expected["mlm_logits"], positions, axis=1)
    if "score" in expected:
        expected["score"] = expected["score"][:, 0]
    return f"transformers {transformers.__version__}", expected


def _kerashub(model, path, batch):
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


REFERENCE_OUTPUTS = {"google": _google, "huggingface": _huggingface, "kerashub": _kerashub}
