"""The feature-based approach of table 7: taggers on hidden states that a frozen encoder computes only once."""

import dataclasses
import logging
import pathlib
import time

import keras

from kbert.files import explain_full_disk, read_json
from kbert.finetuning.features.dataset import FeatureSentences, feature_dataset
from kbert.finetuning.features.evaluation import evaluate_features
from kbert.finetuning.features.extract import write_word_features
from kbert.inspection.board.tensor_board import TensorBoard
from kbert.inspection.examples.dev_examples import DevExamples
from kbert.models.feature_modes import FEATURE_MODES, feature_layers
from kbert.models.feature_tagger import feature_tagger
from kbert.optim.losses import ClassificationLoss
from kbert.optim.metrics import WeightedAccuracy
from kbert.preprocessing.window_preprocessors import TaggingPreprocessor
from kbert.tasks.tagging.readers import TaggedText
from kbert.tasks.tagging.tag_scheme import entity_scores
from kbert.training.callbacks import ConsoleProgress
from kbert.training.dev_evaluation import DevEvaluation, evaluation_steps
from kbert.training.history import training_minutes
from kbert.training.intervals import log_interval_for, training_steps
from kbert.training.made_by import METRICS
from kbert.training.resume import fit_steps
from kbert.training.run_directory import open_run

_LOGGER = logging.getLogger("kbert")
_LOG_EVERY = 50  # steps, about


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureTraining:
    """Training of the two-layer BiLSTM. The paper gives no learning rate or epochs; here the rate falls to 0.

    Args:
        evaluate_every: "epoch", a number of steps, or None: when dev is scored, besides after the last step. The scores
            are for its curve: the weights that are kept are the last.
    """

    epochs: float = 10.0
    steps: int | None = None
    batch_size: int = 32
    learning_rate: float = 1e-3
    units: int = 768
    dropout: float = 0.1
    seed: int = 0
    checkpoint_every: int = 100
    evaluate_every: str | int | None = "epoch"


def train_feature_taggers(
    encoder,
    texts: dict[str, TaggedText],
    tags,
    directory,
    modes=FEATURE_MODES,
    *,
    sequence_length: int = 128,
    settings=None,
    inputs=None,
    recipe: str | None = None,
    training: FeatureTraining = FeatureTraining(),
    profile=None,
    features=None,
) -> dict[str, dict]:
    """Writes the features of all words once, and trains and scores a tagger for each feature mode.

    Args:
        encoder: `BertEncoder` with ``outputs=("hidden_states",)``.
        texts: {"train", "dev"}.
        directory: receives ``features/`` and a folder for each mode, a run that resumes.
        modes: the modes of the table to train now.
        sequence_length: tokens of a window that the encoder reads.
        settings, inputs, recipe: of `open_run`, for the runs of the modes.
        training: how the taggers are trained.
        profile: steps to profile for TensorBoard, as "20:25"; the logs of each mode are in its folder.
        features: directory of the features, where several trainings share them; None: ``features/`` in `directory`.

    Returns:
        {mode: metrics} of all finished modes, including these.

    Source: Devlin et al. 2018, section 5.3 and table 7.
    """
    directory, done = pathlib.Path(directory), {}
    features = directory / "features" if features is None else pathlib.Path(features)
    for mode in FEATURE_MODES:
        path = directory / mode
        if (path / METRICS).exists():
            done[mode] = read_json(path / METRICS)
        elif mode in modes:
            _write_features(encoder, texts, features, sequence_length)
            _LOGGER.info("%s", mode)
            run = open_run(path, (settings or {}) | {"feature_mode": mode}, inputs=inputs, recipe=recipe)
            done[mode] = _train(mode, run, features, texts, tags, encoder.config, training, profile)
    return done


def compiled_tagger(mode, config, tags, options: FeatureTraining, steps: int):
    """The tagger of a feature mode, new, as it is trained for `steps`; `config` is the encoder's."""
    keras.utils.set_random_seed(options.seed)
    model = feature_tagger(
        mode, config.num_layers, config.hidden_dim, len(tags), units=options.units, dropout=options.dropout
    )
    schedule = keras.optimizers.schedules.PolynomialDecay(options.learning_rate, steps, end_learning_rate=0.0)
    model.compile(
        keras.optimizers.Adam(schedule, global_clipnorm=1.0),
        {"logits": ClassificationLoss()},
        weighted_metrics={"logits": [WeightedAccuracy()]},
        jit_compile=False,
    )
    return model


def _write_features(encoder, texts, directory, sequence_length):
    """Writes the features of each text that do not exist yet."""
    preprocessor = TaggingPreprocessor(encoder.pretrained.tokenizer, sequence_length)
    for name, tagged in texts.items():
        path, start = directory / f"{name}.npy", time.perf_counter()
        write_word_features(path, encoder, preprocessor, tagged, range(encoder.config.num_layers + 1))
        words, seconds = sum(map(len, tagged.words)), time.perf_counter() - start
        size = path.stat().st_size / 2**20
        _LOGGER.info(f"features of {words:,} words ({name}): {size:,.0f} MiB, {seconds:.0f} s")


def _train(mode, run, features, texts, tags, config, options, profile):
    layers = feature_layers(mode, config.num_layers)
    train, dev = (FeatureSentences(features / f"{name}.npy", texts[name], tags, layers) for name in texts)
    steps = options.steps or training_steps(len(train), options.batch_size, options.epochs)
    model = compiled_tagger(mode, config, tags, options, steps)

    def make_dataset(start_step):
        return feature_dataset(train, batch_size=options.batch_size, seed=options.seed, start_step=start_step)

    at = evaluation_steps(steps, options.evaluate_every, len(train) / options.batch_size)
    window = log_interval_for(at, options.checkpoint_every, _LOG_EVERY)

    def evaluate():
        return evaluate_features(model, dev, tags, batch_size=options.batch_size)

    evaluation = DevEvaluation(evaluate, at, "f1", run.path, keep="last")
    about = dataclasses.asdict(options) | {"feature_mode": mode, "parameters": model.count_params()}
    logs, answer = run.path / "logs", train.tagged.baseline()
    constant = entity_scores(dev.tagged.tags, [[answer] * len(words) for words in dev.tagged.words])
    baseline = {name: constant[name] for name in ("f1", "precision", "recall", "accuracy")}
    board = TensorBoard(logs, settings=about, baseline=baseline, profile=profile, wait_for_finish=True)
    history = fit_steps(
        model,
        make_dataset,
        steps,
        run.path,
        window=window,
        checkpoint_every=options.checkpoint_every // window,
        callbacks=[ConsoleProgress(), board, DevExamples(evaluation, logs)],
        real_tokens=options.batch_size * float(train.lengths.mean()),
        evaluation=evaluation,
    )
    done, result = evaluation.last
    if result is None or done != steps:  # a run that had ended before
        result = evaluate()
    result.write(run.path)
    with explain_full_disk(run.path / "tagger.keras"):
        model.save(run.path / "tagger.keras")
    metrics = {
        "dev": result.scores,
        "evaluations": evaluation.records,
        "layers": list(layers),
        "steps": steps,
        "train_examples": len(train),
        "minutes": training_minutes(history),
    }
    board.finish(metrics["dev"] | {"minutes": metrics["minutes"]}, steps)
    run.finish(metrics)
    return metrics
