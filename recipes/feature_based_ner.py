"""Named entities without fine-tuning, as in table 7 of the paper: a two-layer BiLSTM on a frozen encoder's features.

    python recipes/feature_based_ner.py --train eng.train --dev eng.testa --init saved_models/kbert-tiny \\
        --output runs/features

The table has six feature modes: embeddings, second-to-last, last, weighted-sum-last-four, concat-last-four and
weighted-sum-all; all of them are run, or the one of --feature-mode. The encoder reads whole documents (see
finetune_ner.py for the files) once: the hidden states of each word's first token are written to features/ in --output
(words x (layers + 1) x hidden x 2 bytes, which may be deleted at the end), and all modes are trained on these. The
paper gives neither learning rate nor epochs; this recipe uses Adam with a learning rate that falls linearly to 0.

--output receives a folder for each mode (tagger.keras, predictions.txt, metrics.json) and, when all six are finished,
metrics.json with the table. The same command resumes: finished features and modes are not computed again.
"""

import dataclasses
import json

from kbert import command_line as cli
from kbert.models.feature_modes import FEATURE_MODES


def parse_arguments(argv):
    parser = cli.make_parser(__doc__)
    cli.add_example_flags(parser, "tagged words")
    cli.add_flags(parser, "tag-column", "scheme", "train-sentences")
    add, units = parser.add_argument, "units of each LSTM in each direction (default: 768)"
    modes = {"choices": ("all", *FEATURE_MODES), "metavar": "MODE", "default": "all"}
    add("--feature-mode", **modes, help="the mode to run (default: all)")
    add("--units", metavar="N", type=cli.positive_int, default=768, help=units)
    own = {"init": {"required": True}, "epochs": {"default": 10.0}, "learning_rate": {"default": 1e-3}}
    own |= {"dropout": {"default": 0.1, "help": "dropout rate of the BiLSTM"}, "checkpoint_every": {"default": 100}}
    own["sequence_length"] = {"help": "tokens of a window; longer texts have several"}
    shared = ("init", "output", "epochs", "steps", "batch-size", "learning-rate", "sequence-length", "dropout", "seed")
    shared += ("checkpoint-every", "evaluate-every", "precision", "profile", "json", "overwrite", "dry-run")
    cli.add_flags(parser, *shared, **own)
    return parser.parse_args(argv)


def main(argv=None):
    args = parse_arguments(argv)
    with cli.plain_errors():
        import kbert
        from kbert.finetuning.features.estimate import describe_estimate, estimate_feature_taggers
        from kbert.finetuning.features.table import describe_scores
        from kbert.finetuning.features.train import FeatureTraining, train_feature_taggers
        from kbert.training.hardware import choose_hardware
        from kbert.training.run_directory import open_run

        task = kbert.tasks.Tagging(**cli.task_options(args))
        train, dev = cli.read_train_and_dev(args, task)
        tags = task.settings(train)["labels"]
        hardware = choose_hardware("one", args.precision)
        outputs, length = ("hidden_states",), args.sequence_length
        with hardware.scope():
            encoder = kbert.load_pretrained(args.init, task="encoder", outputs=outputs, sequence_length=length)
        training = FeatureTraining(**cli.given(args, *(field.name for field in dataclasses.fields(FeatureTraining))))
        modes = FEATURE_MODES if args.feature_mode == "all" else (args.feature_mode,)
        texts, work = {"train": train, "dev": dev}, {"modes": modes, "sequence_length": length, "training": training}
        if args.dry_run:
            with hardware.scope():
                print(describe_estimate(estimate_feature_taggers(encoder, texts, tags, args.output, **work)))
            return
        about = {"settings": cli.settings_of(args, "feature_mode"), "inputs": cli.inputs_of(args)}
        about["recipe"] = "feature_based_ner.py"
        run = open_run(args.output, overwrite=args.overwrite, **about)
    print(hardware.describe())
    print(f"{len(train):,} training sentences, {len(dev):,} to evaluate on; tags: {' '.join(tags)}")
    with hardware.scope():
        done = train_feature_taggers(encoder, texts, tags, run.path, profile=args.profile, **work, **about)
    print(f"\n{describe_scores(done)}")
    metrics = {"feature_modes": done, "train_examples": len(train)}
    if len(done) == len(FEATURE_MODES):
        run.finish(metrics)
    if args.json:
        print(json.dumps(metrics))


if __name__ == "__main__":
    cli.run_program(main, resumes=True)
