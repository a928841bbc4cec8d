"""Two tasks on one encoder, one of them with a head of your own, with Keras' functional API, compile and fit.

    python recipes/two_tasks.py --table reviews.csv --source saved_models/kbert-tiny --output runs/two

The table has a text, a label and a number, such as a review, its sentiment and its stars. The label is predicted from
the pooled [CLS], as in section 4.1 of the paper; the number by a head that weighs all tokens itself. Both losses train
the encoder. Start here if what you need is not among kbert's tasks.
"""

import pathlib

import keras
import numpy as np
import tensorflow as tf

import kbert
from kbert.aliases import PathLike
from kbert.cli import Command, run_command
from kbert.optim import WarmupLinearDecay
from kbert.options import Count, Natural, Positive, record
from kbert.preprocessing import TextPreprocessor
from kbert.training import ExactResume


def two_tasks(
    table: PathLike,
    source: PathLike,
    output: PathLike,
    *,
    text: str = "text",
    label: str = "label",
    number: str = "stars",
    epochs: Count = 3,
    batch_size: Count = 32,
    sequence_length: Count = 128,
    learning_rate: Positive = 5e-5,
    seed: Natural = 0,
) -> dict:
    """Fine-tunes one encoder on two columns of a table, of which a tenth is held out.

    Args:
        table: a .csv, .tsv or .jsonl file.
        source: the pre-trained model.
        output: directory for the checkpoints and the model, two.keras.
        text, label, number: names of columns.
        epochs: passes over the texts.
        batch_size: texts per update.
        sequence_length: tokens of a text.
        learning_rate: the peak.
        seed: determines the new weights, dropout and the order of the texts.
    """
    settings = record(two_tasks, locals())
    files = {"table": table, "source": source}
    output = pathlib.Path(output)
    keras.utils.set_random_seed(seed)

    # The data: the same rows, read once with the label and once with the number.
    of_labels = kbert.tasks.Classification(text=text, label=label).read(table)
    of_numbers = kbert.tasks.Regression(text=text, label=number).read(table)
    names = list(of_labels.label_names)
    texts = np.array(of_labels.columns["text"], object)
    classes = np.asarray(of_labels.labels)
    numbers = np.asarray(of_numbers.labels, "float32")
    order = np.random.default_rng(seed).permutation(len(texts))
    dev = order[: max(1, len(order) // 10)]
    train = order[max(1, len(order) // 10) :]

    # The model: one encoder, two heads. The second one learns how much each token counts.
    encoder = kbert.load_pretrained(source, task="encoder")
    states, pooled = encoder.output["sequence_output"], encoder.output["pooled_output"]  # [B, S, H], [B, H]
    rate = encoder.config.hidden_dropout
    sentiment = keras.layers.Dense(len(names), name="sentiment")(keras.layers.Dropout(rate)(pooled))
    score = keras.layers.Dense(1)(states)  # [B, S, 1]
    padding = keras.ops.cast(keras.ops.logical_not(encoder.input["padding_mask"]), "float32")
    weights = keras.ops.softmax(score - 1e9 * keras.ops.expand_dims(padding, -1), axis=1)
    stars = keras.layers.Dense(1, name="stars")(keras.ops.sum(weights * states, axis=1))
    model = keras.Model(encoder.input, {"sentiment": sentiment, "stars": stars})

    batch_size = min(batch_size, len(train))
    steps_per_epoch = len(train) // batch_size
    steps = epochs * steps_per_epoch
    model.compile(
        kbert.AdamW(WarmupLinearDecay(learning_rate, steps // 10, steps), weight_decay=0.01),
        loss={"sentiment": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "stars": "mse"},
        loss_weights={"sentiment": 1.0, "stars": 0.5},
        metrics={"sentiment": "accuracy", "stars": "mae"},
    )

    # Batches: the order of an epoch is a function of seed and epoch, so that a run that resumes goes on with the next.
    preprocessor = TextPreprocessor(encoder.pretrained.tokenizer, sequence_length)

    def batches(rows):
        labels = {"sentiment": classes[rows], "stars": numbers[rows]}
        strings = tf.data.Dataset.from_tensor_slices((texts[rows].astype(str), labels)).batch(batch_size)
        return strings.map(lambda text, labels: (preprocessor({"text": text}), labels)).prefetch(2)

    resume = ExactResume(output, model, steps_per_epoch, settings=settings, inputs=files)
    orders = [np.random.default_rng((seed, epoch)).permutation(train) for epoch in range(epochs)]
    rows = np.concatenate([order[: steps_per_epoch * batch_size] for order in orders])[resume.step * batch_size :]
    if len(rows):
        model.fit(
            batches(rows),
            steps_per_epoch=steps_per_epoch,
            epochs=epochs,
            initial_epoch=resume.epoch,
            validation_data=batches(dev),
            callbacks=[resume],
            verbose=2,
        )
    scores = model.evaluate(batches(dev), return_dict=True, verbose=0)
    model.save(output / "two.keras")
    print(", ".join(f"{name} {value:.4f}" for name, value in scores.items()))
    return scores


COMMAND = Command(verb=two_tasks, resumes=True, epilog=__doc__)

if __name__ == "__main__":
    run_command(COMMAND)
