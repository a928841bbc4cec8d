"""Pre-train BERT on text, records or batches: `kbert.pretrain`. `run_pretraining` does the work."""

import dataclasses
import functools
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from kbert.options import (
    PASSING,
    Bookkeeping,
    Count,
    Fraction,
    FractionBelowOne,
    Machine,
    Natural,
    NonzeroFraction,
    Optimization,
    Options,
    PathLike,
    Peak,
    Positive,
    Precision,
    Strategy,
    verb,
)

if TYPE_CHECKING:
    from kbert.pipelines.pipeline import Pipeline


SIZES = Literal["tiny", "mini", "small", "medium", "base", "large"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Masking(Options):
    """Which tokens are predicted, and what becomes of them.

    Args:
        mask_rate: the fraction of the tokens that are predicted.
        mask_token_rate, keep_rate, random_token_rate: the fractions of these that become [MASK], stay as they are and
            become random tokens; they add up to 1 (table 8 of the paper).
        whole_word: mask whole words (Google's release of May 2019).
        names: path of a file with a name a line: mask them as a whole (`kbert.pretraining.known_names`).
        max_predictions: the maximum number of masks in a sequence; by default 20 at length 128, 80 at 512, and more at
            another `mask_rate`.
        dupe_factor: after how many epochs the same pairs and masks are repeated, 10 in the original; None: never.
    """

    mask_rate: NonzeroFraction = 0.15
    mask_token_rate: Fraction = 0.8
    keep_rate: Fraction = 0.1
    random_token_rate: Fraction = 0.1
    whole_word: bool = False
    names: PathLike | None = None
    max_predictions: Count | None = None
    dupe_factor: Count | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Objective(Options):
    """What is learned besides masked tokens, or instead of them.

    Args:
        next_sentence: whether next sentences are predicted; without is the "No NSP" ablation of section 5.1.
        random_next_rate: the fraction of pairs with a random second segment.
        left_to_right: the "LTR" of section 5.1: left-only attention, and every token predicts the next one instead of
            masks; `init` must be such a model, too. A text is then pooled at its last token, the only one that attends
            to all others.
    """

    next_sentence: bool = True
    random_next_rate: Fraction = 0.5
    left_to_right: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingOptimization(Optimization):
    """The update of the weights, as `kbert.options.Optimization`, and the course of the run; defaults are the paper's.

    Args:
        bias_correction: Adam's bias correction, which the paper's optimizer lacks; off by default. "lamb" always has
            it.
        schedule: of the learning rate: "linear", to 0 at the end, as the paper (the default); "stable": constant after
            the warm-up, and to 0 in the last fifth; "constant" after the warm-up: such a run keeps its last checkpoint,
            and the same call with more `steps` and the same `warmup_steps` extends it.
        warmup_steps: steps of rising learning rate; a tenth of `steps` by default, at most 10,000.
        warmup_proportion: instead of `warmup_steps`, a fraction of the run.
        hours: instead of `steps`: hours to train. A few steps of a copy of the model decide how many steps there is
            time for; tracing, evaluations and checkpoints are not counted. A resumed run keeps its steps, and
            with `steps`, as in settings.json, nothing is measured.
        phases: instead of `sequence_length`, parts of the run in order, each (sequence length, fraction of the run),
            and if given its own batch size and `max_predictions`: the paper's are [(128, 0.9), (512, 0.1)], on the
            command line 128:0.9 512:0.1.
        batch_size_ramp: (first batch size, fraction of the run in which it is doubled up to `batch_size`); on the
            command line 8:0.3.
    """

    bias_correction: bool | None = None
    schedule: Literal["linear", "stable", "constant"] | None = None
    warmup_steps: Count | None = None
    warmup_proportion: Fraction | None = None
    hours: Positive | None = None
    phases: list[str] | list[tuple] | Any = None
    batch_size_ramp: tuple[Count, NonzeroFraction] | str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class NewModel(Options):
    """How a new model begins.

    Args:
        lowercase: of the tokenizer, where `vocabulary` is not one; False for cased text.
        position_embedding: "learned" (the default) or "sinusoidal", as in the Transformer.
        position_initializer: of learned positions, "normal" (the default) or "sinusoidal": they start as the
            Transformer's.
        initializer_stddev: the standard deviation of new weights, 0.02 by default, as in the original for all sizes; or
            "scaled": 0.02 · √(768 / H), the same at the width of base and more for narrower models.
        dropout: instead of 0.1; of a model that is loaded, too.
    """

    lowercase: bool = True
    position_embedding: Literal["learned", "sinusoidal"] | None = None
    position_initializer: Literal["normal", "sinusoidal"] | None = None
    initializer_stddev: Positive | Literal["scaled"] | None = None
    dropout: FractionBelowOne | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rows(Options):
    """How rows are filled, and which documents are held out.

    Args:
        packed: several short pairs in a row (`kbert.pretraining.pretraining_dataset`): the same losses and less time
            where pairs are short. None: if rows then hold at least 1.05 times as much text. The model of the run is for
            plain rows in any case.
        fill_rows: packed rows with further short pairs where they have space: for documents that are shorter than a row
            (`kbert.pretraining.rows`).
        held_out: for text: the fraction of the documents that are only for evaluation, 0.01 by default (of TFRecords of
            the rows); records have their own.
        evaluation_batches: the number of batches made from the held-out documents.
    """

    packed: bool | None = None
    fill_rows: bool = False
    held_out: FractionBelowOne | None = None
    evaluation_batches: Count = 50


@dataclasses.dataclass(frozen=True, kw_only=True)
class Execution(Machine):
    """Where a model is trained as in `kbert.options.Machine`, and how.

    Args:
        strategy, precision: see `kbert.finetune`.
        steps_per_execution: of `compile`.
        rematerialize: keep only the inputs of encoder blocks for the gradient and recompute the rest: less memory,
            about a third more time. None: as the blocks of `init` are; new ones keep everything.
    """

    strategy: Strategy = "auto"
    precision: Precision = "auto"
    steps_per_execution: Count = 1
    rematerialize: bool | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingBookkeeping(Bookkeeping):
    """What a run writes and how often, as in `kbert.options.Bookkeeping`; only `callbacks` may change the result.

    Args:
        checkpoint_every: steps between checkpoints, 500 by default; the held-out data are evaluated at the same time.
        log_every: steps of a window of logs, 100 by default; checkpoints and evaluations end one, too.
        callbacks: further Keras callbacks, or one; their epochs are windows of `log_every` steps. None that sets the
            learning rate (LearningRateScheduler, ReduceLROnPlateau): `schedule` does.
        keep_every: steps: checkpoints at its multiples are kept for good.
            ``kbert.load_pretrained("runs/tiny@20000")`` loads the model of one.
        keep_best: keep the checkpoint with the lowest held-out loss for good: `metrics["best_step"]` names it, and
            ``RUN@STEP`` loads it. The run's own model is that of its last step in any case.
        overwrite: delete another run in `output`.
    """

    keep_every: Annotated[Count | None, PASSING] = None
    keep_best: Annotated[bool, PASSING] = False
    overwrite: Annotated[bool, PASSING] = False


@dataclasses.dataclass(frozen=True)
class PretrainingRun:
    """A finished pre-training, or with `dry_run` its estimates.

    Attributes:
        metrics: dict: held-out losses and accuracies at the end, the unigram baseline, statistics of the data; for a
            dry run the estimates.
        history: list of dicts, the logs of every window of steps.
        model: `kbert.BertPretrainer` with the weights of the last step, compiled with the optimizer of the run; for
            plain rows, also where the run packed them.
        tokenizer: `kbert.BertTokenizer`; None of batches on another backend than TensorFlow's.
        settings: `ModelSettings`.
        path: `pathlib.Path` of the output directory; None without one.
    """

    metrics: dict[str, Any]
    history: list[dict[str, float]] = dataclasses.field(repr=False)
    model: Any = dataclasses.field(repr=False)
    tokenizer: Any = dataclasses.field(repr=False)
    settings: Any = dataclasses.field(repr=False)
    path: pathlib.Path | None = None

    @functools.cached_property
    def pipeline(self) -> "Pipeline":
        """The fill-mask pipeline of the model, built on first use."""
        from kbert.weights.build_pipeline import build_pipeline

        return build_pipeline(self.model, self.tokenizer, sequence_length=self.settings.sequence_length)


def _run(arguments) -> PretrainingRun:
    from kbert.pretraining.run.run_pretraining import run_pretraining  # not above: it loads TensorFlow

    return run_pretraining(arguments)


@verb(_run)
def pretrain(
    corpus_or_records: list[PathLike] | PathLike | Any,
    *,
    vocabulary: PathLike | Any = None,
    size: SIZES | None = None,
    init: PathLike | Any = None,
    settings: Literal["paper", "small-budget"] | None = None,
    steps: Count | None = None,
    batch_size: Count | None = None,
    sequence_length: Count | None = None,
    learning_rate: Peak | None = None,
    seed: Natural = 0,
    masking: Masking = Masking(),
    objective: Objective = Objective(),
    optimization: PretrainingOptimization = PretrainingOptimization(),
    new_model: NewModel = NewModel(),
    rows: Rows = Rows(),
    machine: Execution = Execution(),
    bookkeeping: PretrainingBookkeeping = PretrainingBookkeeping(),
    output: Annotated[PathLike | None, PASSING] = None,
    dry_run: Annotated[bool, PASSING] = False,
) -> PretrainingRun:
    """Pre-trains BERT: masked language model and next sentence prediction, with the paper's optimizer.

    With `output`, the same call resumes a killed run, and on a CPU ends with bit for bit the same weights. The
    directory then holds model/ (a model directory), metrics.json, settings.json, inputs.json (sizes and hashes),
    history.jsonl, logs/ (TensorBoard) and, until the run is finished, checkpoints/. Without `output` nothing is
    written. Progress is logged to the logger "kbert".

    Args:
        corpus_or_records: a directory of records (`kbert.corpus.write_records`), path(s) or glob pattern(s) of text, or
            documents in memory: a list of documents, each a list of sentences or a text, or rows with a column
            ``text`` (a dict, a list of dicts, a pandas DataFrame, a finite tf.data.Dataset), each a document of running
            prose; or path(s) or pattern(s) of .tfrecord files of the original's create_pretraining_data.py; or a
            directory of batches (``kbert batches``), which needs no TensorFlow: the batches have decided `masking`,
            `objective`, `rows`, batch size, length and order, and `init` is a model directory.
        vocabulary: for text: path of a vocab.txt, list of tokens, or `kbert.BertTokenizer`. `init` and records have
            their own. Where several are given, tokens and settings must be the same.
        size: the size of a new model, "tiny" to "large"; "tiny" by default. With an `init` that is loaded: the
            larger size to which that model is grown first (`kbert.models.grow_model`).
        init: the model to start from instead of new weights: a source for `kbert.load_pretrained`, or a
            `kbert.BertPretrainer` or its pipeline, trained in place; to resume, pass its original weights. The held-out
            scores before the first step are then `metrics["before"]`, on the same held-out rows.
        settings: a set of defaults for what is not given, "paper" or "small-budget".
        steps: weight updates; the paper: 1,000,000. Of batches all that there are, if nothing is given.
        batch_size: sequences per update, over all replicas, 32 by default; the paper: 256.
        sequence_length: tokens of a row, 128 by default.
        learning_rate: the peak, 1e-4 by default; `schedule` chooses its course.
        seed: determines new weights, dropout, pairs, masks and order.
        masking: `Masking`: which tokens are predicted, and what becomes of them.
        objective: `Objective`: next sentences, or left to right.
        optimization: `PretrainingOptimization`: optimizer, schedule, warm-up, phases, hours, micro-batches.
        new_model: `NewModel`: its tokenizer, positions and first weights.
        rows: `Rows`: how rows are filled, and what is held out.
        machine: `Execution`: strategy, precision, XLA, memory.
        bookkeeping: `PretrainingBookkeeping`: checkpoints, TensorBoard, your own callbacks, `overwrite`.
        output: path of a directory.
        dry_run: train and write nothing, and leave `init` as it is: `metrics` has the number of sequences of an
            epoch, of parameters and of tokens, and estimates of memory and time.

    Returns:
        `PretrainingRun`.

    Raises:
        TypeError: `corpus_or_records` or `callbacks` of another type.
        ValueError: incompatible arguments, another tokenizer than that of `init`, damaged or empty files, inputs that
            changed since the run was started, a batch that does not fit into memory.
        FileExistsError: `output` holds a finished run, one with other settings, or other files.
        FileNotFoundError: no such vocabulary or model.
        RuntimeError: the requested hardware does not exist.
        FloatingPointError: the training diverged.
        Interrupted: SIGINT or SIGTERM, after the step was saved.

    Source: Devlin et al. 2018, section 3.1 and appendix A.2.

    Example::

        run = kbert.pretrain("records", size="tiny", settings="small-budget", steps=40_000, output="runs/tiny")
        run.metrics["mlm_accuracy"], run.pipeline.predict(["A [MASK] day."])["tokens"]
    """


def describe_scores(metrics: Mapping) -> str:
    """Loss and accuracy of masked tokens, and of next sentences where the run had them, for printing."""
    loss = f"loss {metrics['mlm_cross_entropy']:.3f}"
    accuracy = f"masked-LM accuracy {metrics['mlm_accuracy']:.1%}"
    pairs = f"next-sentence accuracy {metrics['nsp_accuracy']:.1%}" if "nsp_accuracy" in metrics else None
    if unigram := metrics.get("unigram"):  # of stored batches it is not known
        loss += f" (token frequencies alone: {unigram['cross_entropy']:.3f})"
        accuracy += f" (always the most frequent: {unigram['accuracy']:.1%})"
        pairs = pairs and f"{pairs} (always the more frequent label: {unigram['nsp_accuracy']:.1%})"
    return f"held-out masked tokens: {loss}, {accuracy}" + (f"\nheld-out pairs: {pairs}" if pairs else "")


def describe_estimate(estimate: Mapping) -> str:
    """What `kbert.pretrain(dry_run=True)` found, for printing."""
    from kbert.training.dry_run import format_estimate  # not above: it loads Keras

    if "sequences_per_epoch" not in estimate:  # of stored batches it is not known
        return format_estimate(estimate)
    count = f"{estimate['sequences_per_epoch']:,}" + ("" if estimate["sequences_are_all"] else " or more")
    return f"{count} sequences in an epoch\n{format_estimate(estimate)}"


def describe_run(run: PretrainingRun) -> str:
    """The scores of a `PretrainingRun`, and where its model and curves are, for printing."""
    return (
        f"\n{describe_scores(run.metrics)}\n{run.metrics['minutes']:.1f} minutes\n"
        f"The model is in {run.path / 'model'}, the curves in {run.path / 'logs'}\n"
        f"Next: kbert finetune classification --source {run.path} --train my.csv …"
    )
