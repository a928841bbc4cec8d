"""A BiLSTM on the features of a frozen BERT: section 5.3 of the paper, "feature-based approach" (table 7).

    python recipes/features_bilstm.py --train eng.train --dev eng.testa --source google-bert/bert-base-cased \\
        --output runs/features

The last four layers of each word's first token are computed once and written to --output; two bidirectional LSTMs are
trained on their concatenation. ``kbert tag-features`` runs all rows of table 7.
"""

import pathlib

from kbert.cli import Command, run_command
from kbert.options import Count, FractionBelowOne, Natural, PathLike, Peak


def features_bilstm(
    train: PathLike,
    dev: PathLike,
    source: PathLike,
    output: PathLike,
    *,
    units: Count = 768,
    epochs: Count = 10,
    batch_size: Count = 32,
    sequence_length: Count = 128,
    learning_rate: Peak = 1e-3,
    dropout: FractionBelowOne = 0.1,
    seed: Natural = 0,
) -> dict:
    """Trains a tagger on a frozen encoder's features, and scores entities as conlleval does.

    Args:
        train, dev: files in CoNLL columns: word first, tag last.
        source: the encoder.
        output: directory for features, checkpoints and the tagger.
        units: of each LSTM, in each direction.
        epochs: passes over the sentences.
        batch_size: sentences per update.
        sequence_length: tokens of a window that the encoder reads.
        learning_rate: at the start; it falls linearly to 0.
        dropout: rate before each LSTM and before the linear layer.
        seed: determines the new weights, dropout and the order of the sentences.
    """
    import keras

    import kbert
    from kbert.finetuning.features.extract import write_word_features
    from kbert.finetuning.features.train import FeatureSentences, evaluate_features, feature_dataset
    from kbert.optim.losses import ClassificationLoss
    from kbert.preprocessing import TaggingPreprocessor
    from kbert.training import ExactResume

    output = pathlib.Path(output)
    keras.utils.set_random_seed(seed)

    # The data, and the features of its words: the encoder reads each document once, and is not trained.
    task = kbert.tasks.Tagging()
    texts = {"train": task.read(train), "dev": task.read(dev)}
    tags = task.settings(texts["train"])["labels"]
    encoder = kbert.load_pretrained(source, task="encoder", outputs=("hidden_states",))
    preprocessor = TaggingPreprocessor(encoder.pretrained.tokenizer, sequence_length)
    last = encoder.config.num_layers
    layers = range(max(0, last - 3), last + 1)
    sentences = {}
    for name, words in texts.items():
        path = output / f"{name}.npy"
        write_word_features(path, encoder, preprocessor, words, layers)  # unless it is there
        sentences[name] = FeatureSentences(path, words, tags, range(len(layers)))

    # The model: [B, words, layers, hidden] → two BiLSTMs → the logits of the tags.
    features = keras.Input((None, len(layers), encoder.config.hidden_dim), name="features")
    mask = keras.Input((None,), dtype="bool", name="mask")
    x = keras.layers.Reshape((-1, len(layers) * encoder.config.hidden_dim))(features)
    for _ in range(2):
        x = keras.layers.Dropout(dropout)(x)
        x = keras.layers.Bidirectional(keras.layers.LSTM(units, return_sequences=True))(x, mask=mask)
    logits = keras.layers.Dense(len(tags), name="logits")(keras.layers.Dropout(dropout)(x))
    model = keras.Model({"features": features, "mask": mask}, {"logits": logits})

    steps_per_epoch = max(1, len(sentences["train"]) // batch_size)
    rate = keras.optimizers.schedules.PolynomialDecay(learning_rate, epochs * steps_per_epoch, end_learning_rate=0.0)
    model.compile(keras.optimizers.Adam(rate, global_clipnorm=1.0), {"logits": ClassificationLoss()})

    resume = ExactResume(output, model, steps_per_epoch)
    model.fit(
        feature_dataset(sentences["train"], batch_size=batch_size, seed=seed, start_step=resume.step),
        steps_per_epoch=steps_per_epoch,
        epochs=epochs,
        initial_epoch=resume.epoch,
        callbacks=[resume],
        verbose=2,
    )
    scores = evaluate_features(model, sentences["dev"], tags).scores
    model.save(output / "tagger.keras")
    print(f"precision {scores['precision']:.4f}, recall {scores['recall']:.4f}, F1 {scores['f1']:.4f}")
    return scores


COMMAND = Command(verb=features_bilstm, resumes=True, reads=("train", "dev", "source"), about=__doc__)

if __name__ == "__main__":
    run_command(COMMAND)
