"""Named entities without fine-tuning, as table 7 of the paper: a two-layer BiLSTM on features of a frozen encoder.

    python recipes/feature_based_ner.py --train eng.train --dev eng.testa --init runs/tiny --output runs/features

The six settings of the table: embeddings, second-to-last, last, weighted-sum-last-four, concat-last-four and
weighted-sum-all; --setting runs one of them, all by default. The encoder reads whole documents (see finetune_ner.py for
the files) once: the hidden states of each word's first token are written to features/ in --output, and all settings
learn from these. --train-sentences 2000 learns from the first 2,000 sentences. The paper gives no learning rate and no
epochs; here it is Adam, its rate falling linearly to 0.

--output receives a folder for each setting (tagger.keras, predictions.txt, metrics.json) and, when all six are there,
metrics.json with the table. The same command goes on where it was killed: features and settings that are finished are
not made again. features/ takes words x layers x hidden x 2 bytes and may be deleted at the end.
"""

import argparse
import json
import time

from finetune_classifier import LOG_EVERY
from finetune_ner import add_tagging_flags, read_data
from flags import add_flags, command, inputs_of, plain_errors, positive_int, rate, settings_of

from kbert.files import explain_full_disk, read_json
from kbert.models.feature_tagger import SETTINGS

PAPER = {  # Table 7, BERT-base, F1 on CoNLL-2003's dev
    "embeddings": 91.0, "second-to-last": 95.6, "last": 94.9, "weighted-sum-last-four": 95.9,
    "concat-last-four": 96.1, "weighted-sum-all": 95.5,
}  # fmt: skip


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_tagging_flags(parser)
    parser.add_argument("--setting", choices=("all", *SETTINGS), default="all", help="(default: all)")
    parser.add_argument("--units", metavar="N", type=positive_int, default=768,
                        help="of each LSTM, in each direction (default: 768)")  # fmt: skip
    parser.add_argument("--dropout", metavar="X", type=rate, default=0.1, help="of the BiLSTM (default: 0.1)")
    parser.add_argument("--checkpoint-every", metavar="STEPS", type=positive_int, default=100, help="(default: 100)")
    add_flags(
        parser, "init", "output", "epochs", "steps", "batch-size", "learning-rate", "sequence-length", "seed",
        "precision", "json", "overwrite", init={"required": True}, epochs={"default": 10.0},
        learning_rate={"default": 1e-3}, batch_size={"help": "sentences an update"},
        sequence_length={"help": "tokens of a window that the encoder reads"},
    )  # fmt: skip
    return parser.parse_args(argv)


def load_encoder(args):
    """The frozen encoder, with the output of every layer."""
    import kbert

    return kbert.load_pretrained(
        args.init, task="encoder", outputs=("hidden_states",), sequence_length=args.sequence_length
    )


def cache_features(args, encoder, run, texts):
    """Writes the features of each text that are not there yet."""
    from kbert.preprocessing.tagging_preprocessor import TaggingPreprocessor
    from kbert.tasks.features.extract import write_word_features

    preprocessor = TaggingPreprocessor(encoder.pretrained.tokenizer, args.sequence_length)
    for name, tagged in texts.items():
        path, start = run.path / "features" / f"{name}.npy", time.perf_counter()
        write_word_features(path, encoder, preprocessor, tagged, range(encoder.config.num_layers + 1))
        words = sum(map(len, tagged.words))
        seconds, size = time.perf_counter() - start, path.stat().st_size / 2**20
        print(f"features of {words:,} words ({name}): {size:,.0f} MiB, {seconds:.0f} s", flush=True)


def train_setting(args, setting, run, texts, tags, config):
    """Trains and evaluates the BiLSTM on one setting's features; returns what its metrics.json holds.

    `config`: the encoder's.
    """
    import keras

    from kbert.models.feature_tagger import feature_tagger, setting_layers
    from kbert.optim.losses import ClassificationLoss
    from kbert.optim.metrics import WeightedAccuracy
    from kbert.tasks.classification.dataset import training_steps
    from kbert.tasks.features.dataset import FeatureSentences, feature_dataset, predict_tags
    from kbert.tasks.tagging.metrics import entity_scores
    from kbert.tasks.tagging.prediction_files import write_predictions
    from kbert.training.callbacks import ConsoleProgress
    from kbert.training.intervals import log_interval
    from kbert.training.resume import fit_steps

    start, layers = time.perf_counter(), setting_layers(setting, config.num_layers)
    train, dev = (
        FeatureSentences(run.path.parent / "features" / f"{name}.npy", texts[name], tags, layers) for name in texts
    )
    keras.utils.set_random_seed(args.seed)
    model = feature_tagger(
        setting, config.num_layers, config.hidden_dim, len(tags), units=args.units, dropout=args.dropout
    )
    steps = args.steps or training_steps(len(train), args.batch_size, args.epochs)
    schedule = keras.optimizers.schedules.PolynomialDecay(args.learning_rate, steps, end_learning_rate=0.0)
    model.compile(
        keras.optimizers.Adam(schedule, global_clipnorm=1.0),
        {"logits": ClassificationLoss()},
        weighted_metrics={"logits": [WeightedAccuracy()]},
        jit_compile=False,
    )

    def make_dataset(start_step):
        return feature_dataset(train, batch_size=args.batch_size, seed=args.seed, start_step=start_step)

    window = log_interval(args.checkpoint_every, LOG_EVERY)
    fit_steps(
        model, make_dataset, steps, run.path, window=window, checkpoint_every=args.checkpoint_every // window,
        callbacks=[ConsoleProgress()], real_tokens=args.batch_size * float(train.lengths.mean()),
    )  # fmt: skip
    predicted = predict_tags(model, dev, tags, batch_size=args.batch_size)
    write_predictions(run.path / "predictions.txt", dev.tagged, predicted)
    with explain_full_disk(run.path / "tagger.keras"):
        model.save(run.path / "tagger.keras")
    metrics = {"dev": entity_scores(dev.tagged.tags, predicted), "layers": list(layers), "steps": steps,
               "train_sentences": len(train), "minutes": (time.perf_counter() - start) / 60}  # fmt: skip
    run.finish(metrics)
    return metrics


def run_settings(args, encoder, run, texts, tags):
    """{setting: metrics} of all settings that are finished, those wanted now among them."""
    from kbert.training.run_directory import METRICS, open_run

    wanted = SETTINGS if args.setting == "all" else (args.setting,)
    done = {}
    for setting in SETTINGS:
        path = run.path / setting
        if (path / METRICS).exists():
            done[setting] = read_json(path / METRICS)
        elif setting in wanted:
            cache_features(args, encoder, run, texts)
            print(f"\n{setting}", flush=True)
            settings = settings_of(args, "setting") | {"setting": setting}
            one = open_run(path, settings, inputs=inputs_of(args), recipe="feature_based_ner.py")
            done[setting] = train_setting(args, setting, one, texts, tags, encoder.config)
    return done


def print_table(done):
    """The paper's figures beside ours."""
    print(f"\n{'F1 on dev, feature-based':<28}{'paper, BERT-base':>18}{'this run':>12}{'minutes':>10}")
    for setting, published in PAPER.items():
        ours = f"{100 * done[setting]['dev']['f1']:.1f}" if setting in done else "-"
        minutes = f"{done[setting]['minutes']:.1f}" if setting in done else "-"
        print(f"{setting:<28}{published:>18.1f}{ours:>12}{minutes:>10}")


def main(argv=None):
    args = parse_arguments(argv)
    with plain_errors():
        from kbert.training.hardware import choose_hardware
        from kbert.training.run_directory import open_run

        train, dev, tags = read_data(args)
        hardware = choose_hardware("one", args.precision)
        encoder = load_encoder(args)
        run = open_run(
            args.output, settings_of(args, "setting"), args.overwrite, inputs=inputs_of(args),
            recipe="feature_based_ner.py",
        )  # fmt: skip
    print(hardware.describe())
    print(f"{len(train):,} sentences to learn from, {len(dev):,} to evaluate on; tags: {' '.join(tags)}")
    done = run_settings(args, encoder, run, {"train": train, "dev": dev}, tags)
    print_table(done)
    metrics = {"settings": done, "train_sentences": len(train)}
    if len(done) == len(SETTINGS):
        run.finish(metrics)
    if args.json:
        print(json.dumps(metrics))


if __name__ == "__main__":
    command(main, resumes=True)
