"""A BiLSTM on the features of a frozen BERT: section 5.3 of the paper, "feature-based approach" (table 7).

    python recipes/features_bilstm.py --train eng.train --dev eng.testa --source google-bert/bert-base-cased \\
        --output runs/features

The encoder reads each document once. For each row of the table, two bidirectional LSTMs learn from the hidden states
of every word's first token. The paper gives neither learning rate nor epochs: here Adam's rate falls linearly to 0. The
same command resumes a killed run exactly. The table's first row, fine-tuning, is ``kbert finetune tagging``.
"""

import functools
import json
import math
import pathlib

import keras
import numpy as np
import tensorflow as tf

import kbert
from kbert.aliases import PathLike
from kbert.cli import Command, run_command
from kbert.optim import ClassificationLoss
from kbert.options import Count, Natural, Positive, record
from kbert.preprocessing import TaggingPreprocessor
from kbert.training import ExactResume

ROWS = {  # F1 on CoNLL-2003's dev set with BERT-base; the hidden states, from 0, the embeddings, to the last layer
    "embeddings": (91.0, lambda last: [0]),
    "second-to-last": (95.6, lambda last: [last - 1]),
    "last": (94.9, lambda last: [last]),
    "weighted-sum-last-four": (95.9, lambda last: range(max(1, last - 3), last + 1)),
    "concat-last-four": (96.1, lambda last: range(max(1, last - 3), last + 1)),
    "weighted-sum-all": (95.5, lambda last: range(1, last + 1)),
}
DROPOUT = 0.1  # before each LSTM and before the linear layer


def features_bilstm(
    train: PathLike,
    dev: PathLike,
    source: PathLike,
    output: PathLike,
    *,
    rows: list[str] = tuple(ROWS),
    sentences: Count | None = None,
    units: Count = 768,
    epochs: Count = 10,
    batch_size: Count = 32,
    sequence_length: Count = 128,
    learning_rate: Positive = 1e-3,
    seed: Natural = 0,
) -> dict[str, float]:
    """Trains taggers on a frozen encoder's features, and scores entities as conlleval does.

    Args:
        train, dev: files in CoNLL columns: word first, tag last.
        source: the encoder.
        output: directory for checkpoints, and for scores.json with the F1 of each row.
        rows: of the table.
        sentences: number of training sentences, from the first one. Defaults to all.
        units: of each LSTM in each direction.
        epochs: passes over the sentences.
        batch_size: sentences per update.
        sequence_length: tokens of a window that the encoder reads.
        learning_rate: at the start.
        seed: determines the new weights, dropout and the order of the sentences.
    """
    settings = record(features_bilstm, locals())
    files = {"train": train, "dev": dev, "source": source}
    # The data: sentences, their tags, and the hidden states of their words.
    task = kbert.tasks.Tagging()
    train, dev = task.read(train), task.read(dev)
    train = train if sentences is None else train.take(range(min(sentences, len(train))))
    tags = task.settings(train)["labels"]
    encoder = kbert.load_pretrained(source, task="encoder", outputs=("hidden_states",))
    preprocessor = TaggingPreprocessor(encoder.pretrained.tokenizer, sequence_length)
    read_train, read_dev = (reader(encoder, preprocessor, text, tags) for text in (train, dev))
    batch_size = min(batch_size, len(train))
    steps_per_epoch = len(train) // batch_size
    batches = np.concatenate([batches_of(train, batch_size, seed, epoch) for epoch in range(epochs)])

    scores = {}
    for row in rows:
        layers = list(ROWS[row][1](encoder.config.num_layers))

        # The model: the layers' concatenation or weighted sum → two BiLSTMs → the logits of the tags.
        keras.utils.set_random_seed(seed)
        width = encoder.config.hidden_dim
        inputs = {"states": keras.Input((None, len(layers), width), name="states")}
        inputs["mask"] = keras.Input((None,), dtype="bool", name="mask")
        mean = keras.initializers.Constant(1 / len(layers))
        weighted_sum = keras.layers.EinsumDense("btlh,l->bth", (None, width), kernel_initializer=mean)
        concatenation = keras.layers.Reshape((-1, len(layers) * width))
        x = (weighted_sum if "sum" in row else concatenation)(inputs["states"])
        for _ in range(2):
            lstm = keras.layers.Bidirectional(keras.layers.LSTM(units, return_sequences=True))
            x = lstm(keras.layers.Dropout(DROPOUT)(x), mask=inputs["mask"])
        model = keras.Model(inputs, {"logits": keras.layers.Dense(len(tags))(keras.layers.Dropout(DROPOUT)(x))})
        rate = keras.optimizers.schedules.PolynomialDecay(learning_rate, len(batches), end_learning_rate=0.0)
        model.compile(keras.optimizers.Adam(rate, global_clipnorm=1.0), {"logits": ClassificationLoss()})

        resume = ExactResume(pathlib.Path(output) / row, model, steps_per_epoch, settings=settings, inputs=files)
        data = tf.data.Dataset.from_tensor_slices(batches[resume.step :])
        data = data.map(functools.partial(read_train, layers=layers)).prefetch(2)
        steps = {"steps_per_epoch": steps_per_epoch, "epochs": epochs, "initial_epoch": resume.epoch}
        model.fit(data, **steps, callbacks=[resume], verbose=2)

        predicted = []
        for sentences in np.array_split(np.arange(len(dev)), math.ceil(len(dev) / batch_size)):
            inputs, _ = read_dev(sentences, layers)
            numbers = model.predict_on_batch(inputs)["logits"].argmax(axis=-1)  # [B, T]
            words = zip(numbers, inputs["mask"].numpy(), strict=True)
            predicted += [[tags[number] for number in sentence[mask]] for sentence, mask in words]
        scores[row] = 100 * kbert.tasks.entity_scores(dev.tags, predicted)["f1"]
        print(f"{row}: F1 {scores[row]:.1f} (paper, BERT-base: {ROWS[row][0]})", flush=True)
    (pathlib.Path(output) / "scores.json").write_text(json.dumps(scores, indent=2))
    return scores


def reader(encoder, preprocessor, text, tags: list[str]):
    """A function from numbers of sentences to states [B, T, layers, hidden], mask and labels [B, T], -1 for none."""
    found = []  # the states of each word's first token, in the window where it has the most context
    for document in text.texts("document"):
        words = [word for sentence in document for word in text.words[sentence]]
        batch = preprocessor.windows(tf.RaggedTensor.from_row_lengths(words, [len(words)]))
        states = encoder.predict_on_batch({name: batch[name] for name in encoder.input})["hidden_states"]
        states = np.stack(states, axis=2).astype("float16")  # [windows, tokens, layers + 1, hidden]
        found.append(states.reshape(-1, *states.shape[2:])[batch["word_position"][0]])
    lengths = [len(words) for words in text.words]
    labels = [tags.index(tag) if tag in tags else -1 for sentence in text.tags for tag in sentence]
    states, labels = (tf.RaggedTensor.from_row_lengths(values, lengths) for values in (np.concatenate(found), labels))

    def read(sentences, layers):
        inputs = {"states": tf.gather(tf.gather(states, sentences).to_tensor(), layers, axis=2)}
        inputs["mask"] = tf.sequence_mask(tf.gather(lengths, sentences))
        return inputs, {"logits": tf.gather(labels, sentences).to_tensor(-1)}

    return read


def batches_of(text, batch_size: int, seed: int, epoch: int) -> np.ndarray:
    """Numbers of sentences of similar length, [batches, B]: a function of seed and epoch, so that a run can resume."""
    random = np.random.default_rng((seed, epoch))
    order = random.permutation(len(text))[: len(text) // batch_size * batch_size]
    lengths = np.array([len(text.words[sentence]) for sentence in order])
    return random.permutation(order[np.argsort(lengths, kind="stable")].reshape(-1, batch_size))


COMMAND = Command(verb=features_bilstm, resumes=True, epilog=__doc__)

if __name__ == "__main__":
    run_command(COMMAND)
