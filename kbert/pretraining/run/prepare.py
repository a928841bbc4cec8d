"""What is made of a corpus before a pre-training: records, and batches as files. `run_preparing` does the work."""

from typing import Annotated, Any

from kbert.options import PASSING, CorpusFormat, Count, FractionBelowOne, Natural, PathLike, verb
from kbert.pretraining.run.pretrain import Masking, Objective, Rows


def _prepare_records(asked):
    from kbert.pretraining.run.run_preparing import run_prepare_records  # not above: it loads TensorFlow

    return run_prepare_records(asked)


@verb(_prepare_records)
def prepare_records(
    corpus: list[PathLike] | PathLike,
    vocabulary: PathLike,
    output: PathLike,
    *,
    lowercase: bool = True,
    format: CorpusFormat = "auto",
    language: str = "en",
    held_out: FractionBelowOne = 0.01,
    shard_tokens: Count = 1 << 20,
    shuffle_shards: Count = 16,
    sequence_length: Count = 128,
    seed: Natural = 0,
    runner: str | None = None,
    shared: PathLike | None = None,
    beam_flags: list[str] = (),
    overwrite: bool = False,
) -> dict[str, Any]:
    """Tokenises a corpus once into records, which pre-training reads several times faster than text.

    `output` receives shards of token ids with their indexes, vocab.txt, manifest.json, and metrics.json with counts and
    statistics of the resulting pre-training examples. The documents are shuffled within groups of shards. A killed run
    resumes when the same command is given again. With `runner`, Apache Beam tokenises the files on several processes or
    machines and writes the same records; on the command line, what follows -- are Beam's own flags.

    Args:
        corpus: text files, plain or compressed, or tar or zip archives of them; put patterns in quotes.
        vocabulary: a vocab.txt; or a model, as for `kbert.load_pretrained`, whose tokenizer is used with all of its
            settings: for records on which that model is trained further.
        output: directory.
        lowercase: lower-case the text and strip accents; of a vocab.txt.
        format: of the corpus; auto: detected from the content of each file.
        language: of the corpus, for splitting prose into sentences.
        held_out: fraction of the documents that is used for evaluation only.
        shard_tokens: approximate number of tokens of a shard.
        shuffle_shards: number of shards whose documents are shuffled together, in memory.
        sequence_length: of the report.
        seed: determines the order of the documents.
        runner: an Apache Beam runner, such as DirectRunner.
        shared: with `runner`: a directory that all workers see.
        beam_flags: Beam's own flags, such as ``--direct_num_workers=4``.
        overwrite: delete another run in `output`.

    Returns:
        dict: the counts of documents, sentences, tokens and shards; ``data``, the
        `kbert.pretraining.dataset_statistics` of the training batches, and their ``sequence_length``.

    Example::

        kbert.pretraining.prepare_records("wiki/*.gz", "vocab.txt", "records")
    """


def _write_batches(asked):
    from kbert.pretraining.run.run_preparing import run_write_batches  # not above: it loads TensorFlow

    return run_write_batches(asked)


@verb(_write_batches)
def write_batches(
    records: PathLike,
    output: PathLike,
    *,
    steps: Count,
    batch_size: Count = 32,
    sequence_length: Count = 128,
    masking: Masking = Masking(),
    objective: Objective = Objective(),
    rows: Rows = Rows(),
    batches_per_file: Count = 100,
    seed: Natural = 0,
    overwrite: Annotated[bool, PASSING] = False,
) -> dict[str, Any]:
    """Writes the batches of a pre-training as NumPy files, for GPU machines that have JAX but not TensorFlow.

    The batches are those on which ``kbert pretrain`` trains with the same settings, in the same order, with the pairs
    and masks of every epoch. `output` appears when it is complete; it holds the .npz files, their hashes in
    batches.json, and vocab.txt. ``kbert pretrain`` takes the directory in place of records. A batch of 256 rows of 128
    tokens takes 0.15 MB.

    Args:
        records: directory of ``kbert records``.
        output: a new directory.
        steps: number of batches, one for each weight update.
        batch_size: rows of a batch.
        sequence_length: tokens of a row.
        masking, objective, rows: see `kbert.pretrain`; masked tokens only.
        batches_per_file: batches in a file.
        seed: determines pairs, masks and their order.
        overwrite: replace the batches in `output`.

    Returns:
        The content of batches.json.

    Example::

        kbert.pretraining.write_batches("records", "batches", steps=10_000, whole_word=True)
    """
