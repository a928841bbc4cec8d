"""Pre-train BERT on text: masked language model and next sentence prediction, as the paper's section 3.1 and A.2.

    python recipes/learn_vocabulary.py --corpus 'corpus/*.txt' --size 30522 --output vocab.txt
    python recipes/pretrain.py --corpus 'corpus/*.txt' --vocab vocab.txt --size tiny --steps 10000 --output runs/tiny

or, reading text that was tokenised once (recipes/prepare_records.py), --records DIR instead of --corpus and --vocab.
The paper's own run is --size base --batch-size 256 --steps 900000 --sequence-length 128 --learning-rate 1e-4, and then,
from --init of that output, 100,000 steps of --sequence-length 512. A killed run resumes from its last checkpoint when
the same command is given again, with the same inputs. --output receives model/ (a kbert directory: what --init takes),
metrics.json, settings.json, inputs.json (sizes and hashes), history.jsonl, logs/ (TensorBoard) and, until the run is
finished, checkpoints/.
"""

import argparse
import json
import math
import shutil
import time

from flags import add_flags, command, directory, file, inputs_of, plain_errors, positive_int, rate, settings_of

from kbert.training.intervals import check_intervals, log_interval

LOG_EVERY = 100  # steps


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--corpus", nargs="+", metavar="GLOB", help="text files, compressed or not; see docs/data.md")
    source.add_argument("--records", metavar="DIR", type=directory, help="output of prepare_records.py")
    parser.add_argument("--vocab", metavar="FILE", type=file, help="vocab.txt; --init and --records have their own")
    parser.add_argument("--cased", action="store_true", help="with --vocab: do not lower-case or strip accents")
    parser.add_argument("--size", choices=("tiny", "mini", "small", "medium", "base", "large"),
                        help="of new weights (default tiny)")  # fmt: skip
    add_flags(parser, "init", "output", "steps", "batch-size", "learning-rate", "sequence-length", "seed",
              steps={"required": True}, learning_rate={"default": 1e-4})  # fmt: skip
    parser.add_argument("--warmup-steps", type=positive_int, metavar="N",
                        help="of rising learning rate (default: a tenth of --steps, at most 10,000)")  # fmt: skip
    parser.add_argument("--schedule", choices=("linear", "constant"), default="linear",
                        help="of the learning rate after the warm-up: linear, to 0 at the end, as the paper; constant: "
                             "the same command with more --steps (and the same --warmup-steps) extends a run, which "
                             "keeps its last checkpoint (default: linear)")  # fmt: skip
    parser.add_argument("--predictions", type=positive_int, metavar="N",
                        help="most masks of a sequence (default: 20 at length 128, 80 at 512)")  # fmt: skip
    parser.add_argument("--whole-word", action="store_true", help="mask whole words (Google's release of May 2019)")
    parser.add_argument("--no-next-sentence", action="store_true", help='the "No NSP" ablation of section 5.1')
    parser.add_argument("--left-to-right", action="store_true", help='left-only attention, the "LTR" of section 5.1')
    parser.add_argument("--dropout", metavar="X", type=rate, help="instead of 0.1")
    parser.add_argument("--held-out", type=rate, default=0.01, metavar="SHARE",
                        help="of a --corpus' documents, for evaluation only (default 0.01)")  # fmt: skip
    parser.add_argument("--evaluation-batches", type=positive_int, default=50, metavar="N", help="(default 50)")
    parser.add_argument("--log-every", type=positive_int, metavar="STEPS",
                        help="(default: the divisor of --checkpoint-every that is nearest to 100)")  # fmt: skip
    parser.add_argument("--checkpoint-every", type=positive_int, default=500, metavar="STEPS",
                        help="also evaluates; a multiple of --log-every (default 500)")  # fmt: skip
    add_flags(parser, "strategy", "logical-cpus", "precision", "log-dir", "json", "overwrite")
    args = parser.parse_args(argv)
    if args.corpus and not (args.vocab or args.init):
        parser.error("--corpus needs --vocab (recipes/learn_vocabulary.py makes one) or --init")
    if args.vocab and (args.init or args.records):
        parser.error("--vocab: --init and --records have a vocabulary of their own")
    if args.cased and not args.vocab:
        parser.error("--cased goes with --vocab: --init and --records say themselves what their vocabulary is for")
    if args.init and (args.size or args.left_to_right):
        parser.error("--size, --left-to-right: --init has an architecture of its own")
    args.predictions = args.predictions or math.ceil(args.sequence_length * 20 / 128)
    # Without bias correction the first hundreds of updates are several times too large: too short a rise ends on the
    # plateau of token frequencies, for good (docs/log.md).
    args.warmup_steps = args.warmup_steps or min(10_000, math.ceil(args.steps / 10))
    if args.warmup_steps > args.steps:
        parser.error(f"--warmup-steps must be at most --steps. Received: {args.warmup_steps} of {args.steps}")
    args.log_every = args.log_every or log_interval(args.checkpoint_every, LOG_EVERY)
    try:
        check_intervals(args.checkpoint_every, args.log_every)
    except ValueError as error:
        parser.error(str(error))
    return args


def build(args):
    """The model, uncompiled, with new or loaded weights; its tokenizer and its hardware."""
    import keras

    import kbert
    from kbert.corpus.records import Records
    from kbert.training.hardware import choose_hardware

    hardware = choose_hardware(args.strategy, args.precision, logical_cpus=args.logical_cpus)
    dropout = {} if args.dropout is None else {name: args.dropout for name in ("hidden_dropout", "attention_dropout")}
    keras.utils.set_random_seed(args.seed)
    if args.init:
        with hardware.scope():
            task = "masked_lm" if args.no_next_sentence else "pretraining"
            model = kbert.load_pretrained(args.init, task, sequence_length=args.sequence_length, **dropout)
        return model, model.pretrained.tokenizer, hardware
    if args.records:
        tokenizer = Records(args.records).tokenizer()
    else:
        tokenizer = kbert.BertTokenizer(args.vocab, lowercase=not args.cased)
    config = kbert.BertConfig.from_size(
        args.size or "tiny", vocabulary_size=tokenizer.vocabulary_size, causal=args.left_to_right,
        max_sequence_length=max(512, args.sequence_length), **dropout,
    )  # fmt: skip
    with hardware.scope():
        return kbert.BertPretrainer(config, next_sentence=not args.no_next_sentence), tokenizer, hardware


def datasets(args, tokenizer):
    """A function from a step to the training batches that begin there, and the fixed evaluation batches."""
    from kbert.pretraining.dataset import pretraining_dataset

    def dataset(**which):
        return pretraining_dataset(
            args.records or args.corpus, tokenizer, batch_size=args.batch_size, sequence_length=args.sequence_length,
            predictions=args.predictions, seed=args.seed, held_out=args.held_out,
            next_sentence=not args.no_next_sentence, whole_word=args.whole_word, **which,
        )  # fmt: skip

    return (
        lambda start_step: dataset(start_step=start_step),
        dataset(evaluation=True, batches=args.evaluation_batches),
    )


def describe_data(args, tokenizer, batches, evaluation):
    """What the pipeline makes, and what token frequencies alone would score on the evaluation batches."""
    from kbert.pretraining.dataset_statistics import dataset_statistics, format_report
    from kbert.pretraining.unigrams import token_counts, unigram_baseline

    report = dataset_statistics(batches, tokenizer, batches=20)
    print(format_report(report))
    counts = token_counts(args.records or args.corpus, tokenizer, 2_000_000, held_out=args.held_out)
    unigram = unigram_baseline(counts, evaluation)
    print(f"token frequencies alone: loss {unigram['cross_entropy']:.3f}, accuracy {unigram['accuracy']:.1%}")
    return report, unigram


def schedule_of(settings):
    """The learning rates of a run of these settings: appendix A.2's, or without the decay."""
    from kbert.optim.schedule import WarmupLinearDecay
    from kbert.optim.warmup_constant import WarmupConstant

    if settings["schedule"] == "constant":
        return WarmupConstant(settings["learning_rate"], settings["warmup_steps"])
    return WarmupLinearDecay(settings["learning_rate"], settings["warmup_steps"], settings["steps"])


def train(args, model, tokenizer, hardware, run, make_dataset, evaluation, report):
    """Appendix A.2: Adam with a linear warm-up and decay, weight decay 0.01, clipping at 1.0. Returns the logs."""
    import kbert
    from kbert.inspection.masked_examples import MaskedExamples
    from kbert.training.callbacks import ConsoleProgress, TensorBoardScalars
    from kbert.training.resume import fit_steps

    with hardware.scope():
        model.compile(kbert.AdamW(schedule_of(vars(args))), jit_compile=hardware.jit_compile)
    logs = args.log_dir or run.path / "logs"
    windows = args.checkpoint_every // args.log_every
    return fit_steps(
        model, make_dataset, args.steps, run.path, window=args.log_every, checkpoint_every=windows,
        validation_data=evaluation, validation_every=windows, real_share=1 - report["padding_share"],
        callbacks=[
            ConsoleProgress(), TensorBoardScalars(logs),
            MaskedExamples(tokenizer, next(iter(evaluation)), logs, every=windows),
        ],
    )  # fmt: skip


def main(argv=None):
    args = parse_arguments(argv)
    start = time.perf_counter()
    with plain_errors():
        import kbert
        from kbert.corpus.corpus_files import find_files
        from kbert.pipelines.settings import ModelSettings
        from kbert.training.batch_memory import check_batch_memory
        from kbert.training.log_names import readable_logs
        from kbert.training.run_directory import open_run

        model, tokenizer, hardware = build(args)
        check_batch_memory(model, args.batch_size, args.sequence_length)
        make_dataset, evaluation = datasets(args, tokenizer)
        inputs = inputs_of(args, corpus=find_files(args.corpus) if args.corpus else None)
        run = open_run(
            args.output, settings_of(args), args.overwrite, hardware, inputs=inputs, recipe="pretrain.py",
            schedule=schedule_of,
        )  # fmt: skip
        print(hardware.describe())
        try:
            report, unigram = describe_data(args, tokenizer, make_dataset(0), evaluation)
        except Exception:  # a corpus that gives no batch, or is damaged, leaves nothing behind
            if run.is_chief and not run.resume:
                shutil.rmtree(run.path)
            raise
    history = train(args, model, tokenizer, hardware, run, make_dataset, evaluation, report)
    scores = model.evaluate(evaluation, return_dict=True, verbose=0)
    metrics = readable_logs(scores, model) | {
        "unigram": unigram, "pipeline": report, "steps": args.steps, "parameters": model.count_params(),
        "tokens_per_second": history[-1]["tokens_per_second"] if history else None,  # only the chief keeps it
        "minutes": (time.perf_counter() - start) / 60,
    }  # fmt: skip
    settings = ModelSettings(task=model.task, sequence_length=args.sequence_length, tokenizer=tokenizer.settings())

    def save(path, made_by):
        kbert.save_pretrained(model, path, tokenizer=tokenizer, settings=settings, made_by=made_by, overwrite=True)

    run.finish(metrics, save, keep_checkpoint=args.schedule == "constant")
    report_result(args, metrics, run)


def report_result(args, metrics, run):
    """The last lines a person reads."""
    unigram = metrics["unigram"]
    print(f"\nheld-out masked tokens: loss {metrics['mlm_cross_entropy']:.3f} (token frequencies alone: "
          f"{unigram['cross_entropy']:.3f}), right {metrics['mlm_accuracy']:.1%} "
          f"(always the most frequent: {unigram['accuracy']:.1%})")  # fmt: skip
    if "nsp_accuracy" in metrics:
        print(f"held-out next sentences: right {metrics['nsp_accuracy']:.1%}")
    print(f"{metrics['minutes']:.1f} minutes; the model is in {run.path / 'model'}, the curves in {run.path / 'logs'}")
    print(f"Next: python recipes/finetune_classifier.py --init {run.path} --train my.csv …")
    if args.json:
        print(json.dumps(metrics))


if __name__ == "__main__":
    command(main, resumes=True)
