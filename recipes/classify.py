"""Fine-tune BERT to classify texts with Keras' compile and fit: section 4.1 and appendix A.3 of the paper.

    python recipes/classify.py --table reviews.csv --source google-bert/bert-base-uncased --output runs/reviews

The only new weights are those of one layer on [CLS]; all weights are trained. A killed run goes on exactly when the
same command is given again. ``kbert finetune classification`` does the same with all its options.
"""

import pathlib

import keras

import kbert
from kbert.aliases import PathLike
from kbert.cli import Command, run_command
from kbert.optim import WarmupLinearDecay
from kbert.options import Count, Natural, Positive, record
from kbert.preprocessing import TextPreprocessor
from kbert.tasks.training_data import example_rows, training_dataset
from kbert.training import ExactResume


def classify(
    table: PathLike,
    source: PathLike,
    output: PathLike,
    *,
    text: str = "text",
    label: str = "label",
    epochs: Count = 3,
    batch_size: Count = 32,
    sequence_length: Count = 128,
    learning_rate: Positive = 5e-5,
    seed: Natural = 0,
) -> dict:
    """Fine-tunes on a table of labelled texts, of which a tenth is held out.

    Args:
        table: a .csv, .tsv or .jsonl file.
        source: the pre-trained model.
        output: directory for the checkpoints and the model.
        text, label: names of columns.
        epochs: passes over the texts.
        batch_size: texts per update.
        sequence_length: tokens of a text.
        learning_rate: the peak.
        seed: determines the new layer, dropout and the order of the texts.
    """
    settings = record(classify, locals())
    files = {"table": table, "source": source}
    output = pathlib.Path(output)
    keras.utils.set_random_seed(seed)

    # The data: strings and the numbers of their labels.
    task = kbert.tasks.Classification(text=text, label=label)
    train, dev = task.read(table).split(0.1)
    labels = list(train.label_names)
    steps_per_epoch = max(1, len(train) // batch_size)
    steps = epochs * steps_per_epoch

    # The model: the pre-trained encoder, dropout and one linear layer on its pooled [CLS].
    encoder = kbert.load_pretrained(source, task="encoder")
    model = kbert.BertClassifier(encoder, num_labels=len(labels))
    model.compile(kbert.AdamW(WarmupLinearDecay(learning_rate, steps // 10, steps), weight_decay=0.01))

    # From strings to batches, in the graph: WordPiece, [CLS] … [SEP], padding.
    preprocessor = TextPreprocessor(encoder.pretrained.tokenizer, sequence_length)
    resume = ExactResume(output, model, steps_per_epoch, settings=settings, inputs=files)
    batches = training_dataset(
        example_rows(train, preprocessor), batch_size=batch_size, seed=seed, start_step=resume.step
    )

    model.fit(
        batches,
        steps_per_epoch=steps_per_epoch,
        epochs=epochs,
        initial_epoch=resume.epoch,
        validation_data=(preprocessor(dev.columns), {"logits": dev.labels}),
        callbacks=[resume],
        verbose=2,
    )

    # One model from strings to labels, to save, to ask and to serve.
    pipeline = kbert.build_pipeline(model, encoder.pretrained.tokenizer, labels=labels, sequence_length=sequence_length)
    scores = kbert.evaluate(pipeline, task, dev)
    kbert.save_pretrained(pipeline, output / "model", overwrite=True)
    print(", ".join(f"{name} {value:.4f}" for name, value in scores.items() if isinstance(value, float)))
    return scores


COMMAND = Command(verb=classify, resumes=True, epilog=__doc__)

if __name__ == "__main__":
    run_command(COMMAND)
