"""Fine-tuning as one call: section 3.2 and appendix A.3 of the paper."""

from collections.abc import Mapping, Sequence

from keras.callbacks import Callback

from kbert.finetuning.finetuned_run import FinetunedRun
from kbert.finetuning.finetuning import Finetuning
from kbert.tasks.task import Task


def finetune(
    source,
    task: Task,
    train,
    dev=None,
    output=None,
    *,
    epochs: float = 3.0,
    steps: int | None = None,
    batch_size: int = 32,
    learning_rate: float = 5e-5,
    warmup_share: float = 0.1,
    weight_decay: float = 0.01,
    sequence_length: int | None = None,
    seed: int = 0,
    dropout: float | None = None,
    bias_correction: bool = False,
    layer_decay: float | None = None,
    lora_rank: int | None = None,
    bilstm: bool = False,
    accumulate: int = 1,
    group_by_length: bool = False,
    random_weights: bool = False,
    class_weight: Mapping | str | None = None,
    strategy: str = "auto",
    logical_cpus: int | None = None,
    precision: str = "auto",
    xla: str = "auto",
    evaluate_every: str | int | None = "epoch",
    keep: str = "best",
    patience: int | None = None,
    checkpoint_every: int = 200,
    callbacks: Sequence | Callback = (),
    more_dev: Mapping | None = None,
    log_dir=None,
    profile=None,
    overwrite: bool = False,
) -> FinetunedRun:
    """Fine-tunes a pre-trained model on a task, with a new last layer unless it has one for the same labels.

    A model of the task with the same labels keeps its head and their order; so does one that has only default names of
    labels (``LABEL_0`` …, ``0`` …) and as many. All weights are trained, unless `lora_rank` is given. The
    learning rate rises over the first tenth of the steps and falls linearly to 0. After each epoch the model is
    evaluated on `dev`, and the best weights are kept, as the paper chooses the number of epochs on dev. Progress is
    logged (logger "kbert"; `kbert.log_to_console` shows it); nothing is printed.

    Args:
        source: a source for `kbert.load_pretrained`, such as ``"google-bert/bert-base-uncased"`` or a recipe's output;
            or a kbert model or pipeline, whose own encoder is then trained (to resume, give it as it was at the start).
        task: a task object, such as ``kbert.tasks.Classification(text="review", label="stars")``.
        train, dev: examples: the result of ``task.read``, the path of a file, or rows in memory (a dict of columns, a
            list of dicts or tuples, a pandas DataFrame, a finite tf.data.Dataset); a GLUE directory is as `dev` its dev
            split. Of a Hugging Face DatasetDict they are the splits "train" and "validation", also where only `train`
            is given. Without `dev` there are no scores and the last weights are kept.
        output: directory for the model, its metrics, history and TensorBoard logs; an unfinished run with the same
            settings and examples is resumed exactly. None: nothing is written.
        epochs: passes over `train`. The paper chooses among 2, 3 and 4.
        steps: weight updates, instead of `epochs`.
        batch_size: examples (or windows) per update, over all replicas. The paper: 16 or 32.
        learning_rate: the peak. The paper: 5e-5, 3e-5 or 2e-5.
        warmup_share: the share of the steps in which the learning rate rises to its peak.
        weight_decay: of all weights but biases and layer normalisations; times the learning rate, at each step.
        sequence_length: tokens per row; None: the model's own, 128 by default (spans: 384).
        seed: determines new weights, dropout and the order of the examples.
        dropout: instead of the model's own dropout rates.
        bias_correction: Adam as published, with bias correction; BERT was trained without.
        layer_decay: the ratio of a layer's learning rate to that of the layer above; None: the same rate for all.
        lora_rank: instead of all weights, train the head and, for the encoder, LoRA's matrices of this rank
            (`enable_lora`). They are merged in the model that is stored; ``adapter.npz`` beside it has them and the
            head alone, for `load_adapter`.
        bilstm: whether a new BiLSTM stands between encoder and head: section 5.1's "+ BiLSTM" on a left-to-right model.
        accumulate: the number of micro-batches into which a replica divides its share of an update: less memory, the
            same update.
        group_by_length: whether batches have rows of similar length: faster, but a batch is no longer drawn from all
            rows.
        random_weights: whether to take only architecture and vocabulary of `source`, to measure the effect of
            pre-training.
        class_weight: for a classifier, {label: loss factor of its examples}, or "balanced": every label has the same
            total weight. An integer is a class number, and an error if it is also the label of another class.
        strategy, logical_cpus, precision, xla: see `kbert.training.choose_hardware`.
        evaluate_every: "epoch" or, with `dev`, a number of steps: when `dev` is scored; None: only at the end.
        keep: "best" or "last": which weights are kept.
        patience: with `dev`, stop after this many evaluations without improvement; None: never.
        checkpoint_every: steps from one checkpoint to the next.
        callbacks: your own Keras callbacks, or one; none that sets the learning rate (LearningRateScheduler,
            ReduceLROnPlateau). With `dev` their epochs end with each evaluation, and the logs have its scores
            (``val_accuracy`` …); without, with each window of about 50 steps. Which weights are kept is for `keep`.
        more_dev: with `dev`, {suffix: examples}, scored at the end; their metrics have this suffix.
        log_dir: directory of the TensorBoard logs (`kbert.inspection.TensorBoard`); None: ``logs`` in `output`.
        profile: steps to profile for TensorBoard, as "20:25", with `log_dir` or `output`.
        overwrite: delete another run in `output`.

    Returns:
        `FinetunedRun`, with ``metrics``, ``history``, ``pipeline`` and ``path``.

    Raises:
        TypeError: `task` is no task object, `source` no model, or `callbacks` no callbacks.
        FileNotFoundError: no such file or model.
        NotADirectoryError: `output` or `log_dir` is a file, or below one.
        FileExistsError: `output` holds other files or another run; the message says what was found.
        ValueError: incompatible examples, settings or model; a batch that does not fit into memory.
        FloatingPointError: the training diverged; the message names the step.
        KeyboardInterrupt: SIGINT or SIGTERM, after a checkpoint of the last step was saved.

    Source: Devlin et al. 2018, section 3.2 and appendix A.3.

    Example::

        task = kbert.tasks.Classification(text="review", label="stars")
        train, dev = task.read("reviews.csv").split(0.1)
        run = kbert.finetune("google-bert/bert-base-uncased", task, train, dev, "runs/reviews", learning_rate=3e-5)
        run.metrics["dev"]["accuracy"], run.pipeline.predict(["A charming journey."])["label"]
    """
    return Finetuning(**locals()).run()  # all arguments by name
