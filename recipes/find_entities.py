"""Fine-tune BERT to find named entities, with Keras' compile and fit: section 5.3 of the paper, "fine-tuning approach".

    python recipes/find_entities.py --train eng.train --dev eng.testa --source google-bert/bert-base-cased \\
        --output runs/entities

A linear layer on the first token of each word, no CRF; words are read with as much of their document as fits. A killed
run goes on exactly when the same command is given again. ``kbert finetune tagging`` does the same with all its options.
"""

import pathlib

import keras

import kbert
from kbert.aliases import PathLike
from kbert.cli import Command, run_command
from kbert.optim import WarmupLinearDecay
from kbert.options import Count, Natural, Positive, record
from kbert.preprocessing import TaggingPreprocessor
from kbert.tasks.tagging.evaluation import TaggedWindows, tagged_rows
from kbert.tasks.training_data import training_dataset
from kbert.training import ExactResume


def find_entities(
    train: PathLike,
    dev: PathLike,
    source: PathLike,
    output: PathLike,
    *,
    epochs: Count = 3,
    batch_size: Count = 32,
    sequence_length: Count = 128,
    learning_rate: Positive = 5e-5,
    seed: Natural = 0,
) -> dict:
    """Fine-tunes on words with tags, and scores entities as conlleval does.

    Args:
        train, dev: files in CoNLL columns: word first, tag last.
        source: the pre-trained model.
        output: directory for the checkpoints and the model.
        epochs: passes over the windows.
        batch_size: windows per update.
        sequence_length: tokens of a window.
        learning_rate: the peak.
        seed: determines the new layer, dropout and the order of the windows.
    """
    settings = record(find_entities, locals())
    files = {"train": train, "dev": dev, "source": source}
    output = pathlib.Path(output)
    keras.utils.set_random_seed(seed)

    # The data: words with tags such as B-PER, I-PER and O.
    task = kbert.tasks.Tagging()
    words, asked = task.read(train), task.read(dev)
    tags = task.settings(words)["labels"]

    # The model: the pre-trained encoder, and for every token the logits of the tags.
    encoder = kbert.load_pretrained(source, task="encoder", sequence_length=sequence_length)
    tokenizer = encoder.pretrained.tokenizer
    model = kbert.BertTagger(encoder, num_labels=len(tags))

    # Windows of documents: the loss counts only the first token of each word.
    windows = TaggedWindows.from_tagged_text(words, TaggingPreprocessor(tokenizer, sequence_length), tags)
    steps_per_epoch = max(1, len(windows) // batch_size)
    steps = epochs * steps_per_epoch
    model.compile(kbert.AdamW(WarmupLinearDecay(learning_rate, steps // 10, steps), weight_decay=0.01))

    resume = ExactResume(output, model, steps_per_epoch, settings=settings, inputs=files)
    model.fit(
        training_dataset(tagged_rows(windows), batch_size=batch_size, seed=seed, start_step=resume.step),
        steps_per_epoch=steps_per_epoch,
        epochs=epochs,
        initial_epoch=resume.epoch,
        callbacks=[resume],
        verbose=2,
    )

    # One model from strings to entities.
    pipeline = kbert.build_pipeline(model, tokenizer, labels=tags, sequence_length=sequence_length)
    scores = kbert.evaluate(pipeline, task, asked)
    kbert.save_pretrained(pipeline, output / "model", overwrite=True)
    print(f"precision {scores['precision']:.4f}, recall {scores['recall']:.4f}, F1 {scores['f1']:.4f}")
    return scores


COMMAND = Command(verb=find_entities, resumes=True, epilog=__doc__)

if __name__ == "__main__":
    run_command(COMMAND)
