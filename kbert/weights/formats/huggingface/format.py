"""The format "huggingface"."""

import numpy as np

from kbert.weights.formats.format import Format
from kbert.weights.formats.huggingface.read import CONFIG, is_huggingface_directory, read_huggingface_directory
from kbert.weights.formats.huggingface.tokenizer import CONFIG as TOKENIZER_CONFIG
from kbert.weights.formats.huggingface.tokenizer import TOKENIZER, VOCABULARY
from kbert.weights.formats.huggingface.weights_file import PICKLE, WEIGHTS
from kbert.weights.formats.huggingface.write import class_of, write_huggingface_directory
from kbert.weights.formats.kbert_settings import NAME

_NAMES = {  # kbert's output → transformers', the first that its class has
    "mlm_logits": ("prediction_logits", "logits"),
    "nsp_logits": ("seq_relationship_logits", "logits"),
    "logits": ("logits",),
    "score": ("logits",),
    "start_logits": ("start_logits",),
    "end_logits": ("end_logits",),
}


class HuggingFaceFormat(Format):
    """Directories of transformers: written as safetensors; pickles and shards can be read too."""

    name = "huggingface"
    title = f"a Hugging Face directory ({CONFIG}, {WEIGHTS} or {PICKLE})"
    files = (CONFIG, WEIGHTS, VOCABULARY, TOKENIZER, TOKENIZER_CONFIG, NAME)

    def recognises(self, path):
        return is_huggingface_directory(path)

    def read(self, path, vocabulary=None):
        return read_huggingface_directory(path, vocabulary)

    def write(self, directory, model, settings, vocabulary, *, made_by=None):
        write_huggingface_directory(directory, model, settings, vocabulary)

    def reference_outputs(self, model, path, batch):
        import torch
        import transformers

        directory = path.parent if path.is_file() else path
        their_class = getattr(transformers, class_of(model))
        options = {"add_pooling_layer": False} if model.task == "encoder" and model.encoder.pooler is None else {}
        theirs = their_class.from_pretrained(directory, **options).eval()
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
        found = {"hidden_states": [x.numpy().reshape(*shape, -1) for x in outputs.hidden_states]}
        if pooled is not None:
            found["pooled_output"] = pooled.numpy()
        for ours, names in _NAMES.items():
            if ours in model.output:
                found[ours] = next(outputs[name].numpy() for name in names if name in outputs)
        if "mlm_logits" in found:
            found["mlm_logits"] = np.take_along_axis(found["mlm_logits"], batch["mask_positions"][:, :, None], axis=1)
        if "score" in found:
            found["score"] = found["score"][:, 0]
        return f"transformers {transformers.__version__}", found


FORMAT = HuggingFaceFormat()
