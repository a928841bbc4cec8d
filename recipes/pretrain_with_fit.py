"""Continue the pre-training of a masked language model on your own texts, with Keras' compile and fit.

    python recipes/pretrain_with_fit.py --texts reviews.txt --model saved_models/kbert-tiny --output runs/reviews

One text a line; a text longer than a row becomes windows. Masks are made inside the pipeline, new ones in each epoch.
"""

import pathlib

import kbert
from kbert.aliases import PathLike
from kbert.checks import check_directory
from kbert.cli import Command, run_command
from kbert.options import Count


def pretrain(
    texts: PathLike,
    model: str,
    output: PathLike,
    *,
    sequence_length: Count = 128,
    epochs: Count = 3,
    batch_size: Count = 32,
) -> dict:
    """Continues the pre-training of `model`.

    Args:
        texts: a file with a text on each line.
        model: the masked language model to start from.
        output: new directory for the model.
        sequence_length: tokens of a row, at most the model's.
        epochs: passes over the texts.
        batch_size: rows of a batch.
    """

    output = check_directory(output, "`output`")  # before the work
    if output.exists() and any(output.iterdir()):
        raise FileExistsError(f"{output}: expected a new directory. Received: one with files")

    # The data: strings, of which some are held out.
    lines = [line.strip() for line in pathlib.Path(texts).read_text("utf-8").splitlines() if line.strip()]
    held_out = max(1, len(lines) // 20)
    if len(lines) < 2:
        raise ValueError(f"{texts}: expected at least two texts, a line each. Received: {len(lines)}")

    # The model, with the preprocessing that masks its texts.
    pretrainer = kbert.load_pretrained(model, task="masked_lm")
    pipeline = kbert.build_pipeline(pretrainer, sequence_length=sequence_length, masking={"seed": 1})

    pipeline.compile(kbert.AdamW(1e-4))
    history = pipeline.fit(
        lines[held_out:], validation_data=(lines[:held_out],), epochs=epochs, batch_size=batch_size, verbose=2
    )
    kbert.save_pretrained(pipeline, output)
    return history.history


COMMAND = Command(verb=pretrain, epilog=__doc__)

if __name__ == "__main__":
    run_command(COMMAND)
