"""Table 5's "+ BiLSTM": an encoder with a new BiLSTM on it, which `kbert.finetune` takes as its source.

Section 5.1 of the paper. It is for scores: no format of weights holds such a model.
"""

import keras

from kbert.models import BertEncoder, BertModel
from kbert.training.hardware import choose_hardware
from kbert.weights import load_pretrained

_OF_TEXTS = ("classification", "regression")  # the tasks whose heads read a text's state; the others read all tokens'


class BilstmEncoder(BertModel):
    """An encoder whose output went through a new BiLSTM.

    Args:
        encoder: `kbert.BertEncoder` with a ``sequence_output``; it is shared.
        is_of_texts: whether the output is the BiLSTM's last state in each direction; otherwise its states at all
            tokens.

    Inputs: those of `encoder`.

    Outputs: ``pooled_output`` [B, H] or ``sequence_output`` [B, S, H].
    """

    task = "encoder"
    num_parts = None

    def __init__(self, encoder: BertEncoder, is_of_texts: bool):
        units = encoder.config.hidden_dim // 2  # in each direction; without cuDNN's kernel, which XLA cannot compile
        lstm = keras.layers.LSTM(units, return_sequences=not is_of_texts, use_cudnn=False, dtype=encoder.dtype_policy)
        lstm = keras.layers.Bidirectional(lstm, dtype=encoder.dtype_policy, name="bilstm")
        states = lstm(encoder(encoder.input)["sequence_output"], mask=encoder.input["padding_mask"])
        outputs = {"pooled_output" if is_of_texts else "sequence_output": states}
        super().__init__(encoder.input, outputs, dtype=encoder.dtype_policy)
        self.config = encoder.config
        self.embeddings = encoder.embeddings
        self.blocks = encoder.blocks
        self.pretrained = encoder.pretrained


def bilstm_encoder(source, task: str, seed: int, dropout: float | None = None) -> BilstmEncoder:
    """A stored model's encoder with a new BiLSTM on it, for the head of a task.

    Args:
        source: of `kbert.load_pretrained`.
        task: the word of the task that it is fine-tuned on.
        seed: of the BiLSTM's weights.
        dropout: instead of the model's own dropout rates.
    """
    rates = {} if dropout is None else {"hidden_dropout": dropout, "attention_dropout": dropout}
    hardware = choose_hardware(source=source)
    keras.utils.set_random_seed(seed)
    with hardware.scope():
        encoder = load_pretrained(source, "encoder", outputs=("sequence_output",), pooler=False, **rates)
        return BilstmEncoder(encoder, task in _OF_TEXTS)
