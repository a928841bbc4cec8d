"""The format "huggingface"."""

from kbert.weights.formats.format import Format
from kbert.weights.formats.huggingface.read import CONFIG, is_huggingface_directory, read_huggingface_directory
from kbert.weights.formats.huggingface.tokenizer import CONFIG as TOKENIZER_CONFIG
from kbert.weights.formats.huggingface.tokenizer import TOKENIZER, VOCABULARY
from kbert.weights.formats.huggingface.weights_file import PICKLE, WEIGHTS
from kbert.weights.formats.huggingface.write import write_huggingface_directory
from kbert.weights.formats.kbert_settings import NAME


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
        from kbert.weights.formats.huggingface.reference import transformers_outputs

        return transformers_outputs(model, path, batch)


FORMAT = HuggingFaceFormat()
