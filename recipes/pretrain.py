"""Pre-train BERT with Keras' compile and fit: sections 3.1 and A.2 of the paper.

    kbert vocabulary 'corpus/*.txt' --output vocab.txt
    kbert records 'corpus/*.txt' --vocabulary vocab.txt --output records
    python recipes/pretrain.py --records records --output runs/tiny --steps 40000

Masked words and next sentences, new pairs and masks in each epoch. A killed run goes on exactly when the same command
is given again. ``kbert pretrain`` does the same with all its options: phases, packing, a time budget, TensorBoard.
"""

import pathlib

import keras

import kbert
from kbert.aliases import PathLike
from kbert.cli import Command, run_command
from kbert.config import default_max_predictions
from kbert.corpus import Records
from kbert.optim import WarmupLinearDecay
from kbert.options import Count, Natural, Positive, record
from kbert.pretraining import pretraining_dataset
from kbert.pretraining.run.pretrain import SIZES
from kbert.training import ExactResume, RunLog, choose_hardware


def pretrain(
    records: PathLike,
    output: PathLike,
    *,
    size: SIZES = "tiny",
    steps: Count = 40_000,
    steps_per_epoch: Count = 500,
    batch_size: Count = 32,
    sequence_length: Count = 128,
    learning_rate: Positive = 1e-4,
    seed: Natural = 0,
    strategy: str = "auto",
) -> dict:
    """Pre-trains a new model on records.

    Args:
        records: directory of ``kbert records``.
        output: directory for the checkpoints and the model.
        size: of the model.
        steps: weight updates, a multiple of `steps_per_epoch`; the paper: 1,000,000.
        steps_per_epoch: between two checkpoints, and two evaluations on the held-out documents.
        batch_size: rows per update; the paper: 256.
        sequence_length: tokens of a row.
        learning_rate: the peak.
        seed: determines new weights, dropout, pairs and masks.
        strategy: see `kbert.training.choose_hardware`.
    """
    settings = record(pretrain, locals())
    files = {"records": records}
    if steps % steps_per_epoch:
        raise ValueError(f"`steps` must be a multiple of `steps_per_epoch`. Received: {steps} and {steps_per_epoch}")
    output = pathlib.Path(output)
    hardware = choose_hardware(strategy)
    keras.utils.set_random_seed(seed)
    tokenizer = Records(records).tokenizer()

    # The model: an encoder with a masked-LM head, tied to the word embeddings, and a next-sentence head. Its losses
    # are the paper's. Adam without bias correction; the rate rises over the first tenth of the steps, at most 10,000,
    # and falls linearly to 0.
    with hardware.scope():
        config = kbert.BertConfig.from_size(
            size, vocabulary_size=tokenizer.vocabulary_size, pad_token_id=tokenizer.pad_id
        )
        model = kbert.BertPretrainer(config)
        schedule = WarmupLinearDecay(learning_rate, min(10_000, -(-steps // 10)), steps)
        model.compile(kbert.AdamW(schedule, weight_decay=0.01), jit_compile=hardware.jit_compile)

    # The data: half of the pairs are random, 15 % of the tokens are masked (80 % [MASK], 10 % kept, 10 % random).
    # Batch n is a function of seed and n, so a run that resumes goes on with the next one.
    resume = ExactResume(output, model, steps_per_epoch, settings=settings, inputs=files, hardware=hardware)
    rows = {
        "batch_size": batch_size,
        "sequence_length": sequence_length,
        "max_predictions": default_max_predictions(sequence_length),
        "seed": seed,
    }
    training = pretraining_dataset(records, tokenizer, start_step=resume.step, **rows)
    held_out = pretraining_dataset(records, tokenizer, evaluation=True, batches=50, **rows)

    history = model.fit(
        training,
        steps_per_epoch=steps_per_epoch,
        epochs=steps // steps_per_epoch,
        initial_epoch=resume.epoch,
        validation_data=held_out.cache(),
        callbacks=[RunLog(output), resume],
        verbose=0,
    )
    kbert.save_pretrained(model, output / "model", tokenizer=tokenizer, overwrite=True)
    print(f"The model is in {output / 'model'}")
    return history.history


COMMAND = Command(verb=pretrain, resumes=True, epilog=__doc__)

if __name__ == "__main__":
    run_command(COMMAND)
