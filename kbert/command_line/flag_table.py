"""The flags that programs share: each has one name, one meaning and one check."""

import argparse
import pathlib

from kbert.command_line.argument_types import (
    ClassWeight,
    epoch_or_int,
    existing_directory,
    existing_file,
    model_source,
    number_or_off,
    positive_float,
    positive_int,
    rate,
    share,
    stddev_or_scaled,
    steps_to_profile,
)


def _number(help, type=positive_int, metavar="N", **others):
    return dict(metavar=metavar, type=type, help=help, **others)


def _choice(help, *choices, **others):
    return dict(choices=choices, help=help, **others)


def _switch(help, action="store_true", **others):
    return dict(action=action, help=help, **others)


def _path(help, type=existing_file, metavar="FILE", **others):
    return dict(metavar=metavar, type=type, help=help, **others)


def _name(help, metavar="NAME", **others):
    return dict(metavar=metavar, help=help, **others)


_PRECISIONS = ("auto", "float32", "mixed_bfloat16", "mixed_float16")
MACHINE = ("strategy", "logical-cpus", "precision")
CHOICE_FORMAT = dict(choices=("swag", "dream", "table"), default="table", help="format of multiple-choice files")
EVALUATED_CHECKPOINTS = dict(default=500, help="steps between checkpoints and evaluations; a multiple of --log-every")
SIZES = ("tiny", "mini", "small", "medium", "base", "large")
FLAGS = {
    # What is read
    "corpus": dict(
        nargs="+",
        metavar="GLOB",
        help="text files, plain or compressed, or tar or zip archives of them; put patterns in quotes",
    ),
    "records": _path("directory that prepare_records.py wrote", existing_directory, "DIR"),
    "vocab": _path("the vocabulary, a vocab.txt", dest="vocabulary"),
    "cased": _switch("do not lower-case the text or strip accents", "store_false", dest="lowercase"),
    "format": _choice(
        "format of the corpus; auto: detected from the content of each file",
        "auto",
        "lines",
        "prose",
        "wikiextractor",
        default="auto",
    ),
    "language": dict(default="en", help="language of the corpus, for splitting prose into sentences"),
    "held-out": _number("share of the corpus' documents that is used for evaluation only", rate, "SHARE", default=0.01),
    "data": _path("labelled examples", pathlib.Path, "PATH", required=True),
    "glue": _path("directory of the GLUE files", existing_directory, "DIR"),
    "ner": _path("directory of eng.train and eng.testa, for entities", existing_directory, "DIR"),
    "squad": _path("directory of train-v1.1.json and dev-v1.1.json", existing_directory, "DIR"),
    "input": _path("file with the texts", required=True),
    "train": _path("examples to train on", required=True),
    "dev": _path("examples to evaluate on"),
    "dev-share": _number("without --dev: share of --train that is held out to evaluate on", rate, "X", default=0.1),
    "train-sentences": _number("train on the first N sentences only"),
    "train-examples": _number("train on at most N examples of each task"),
    "text-column": _name("column of the text", default="text"),
    "text-pair-column": _name("column of the second text, for pairs"),
    "label-column": _name("column of the label", default="label"),
    "label-separator": _name(
        "what separates the labels of a text, such as '|' (default: every text has one label)", metavar="CHARS"
    ),
    "metrics": _name("the metrics, of which the first one chooses the best epoch (default: the task's own)", nargs="+"),
    "question-column": _name("column of the question", default="question"),
    "context-column": _name("column of the context", default="context"),
    "tag-column": _number("number of the tag's column, from 0, or negative: from the end", int, default=-1),
    "scheme": _choice("tagging scheme (default: recognised from the tags)", "iob1", "iob2", "bioes", "bilou"),
    "context": _choice("what a tagger reads together", "document", "sentence", default="document"),
    "prompt-column": _name("column of the prompt", default="prompt"),
    "choice-columns": _name(
        "a column for each choice, or the key of a .jsonl that holds lists", nargs="+", default=["choices"]
    ),
    "doc-stride": _number("tokens between the starts of two windows", default=128),
    "max-query-length": _number("tokens to which a question is truncated", default=64),
    "max-answer-length": _number("the maximum number of tokens of an answer", default=30),
    "n-best": _number("number of answers in the n-best list", default=20),
    # Models
    "init": dict(
        metavar="SOURCE",
        type=model_source,
        help="the model to start from: a kbert directory, the output of a recipe, a checkpoint of Google, Hugging Face "
        "or KerasHub, or a name on the hub, such as google-bert/bert-base-uncased (or owner/name@revision); RUN@STEP "
        "is a checkpoint of a run",
    ),
    "model": dict(
        metavar="SOURCE",
        type=model_source,
        required=True,
        help="the model: a path or name as for --init of other recipes",
    ),
    "size": _choice("size of a new model (default: tiny)", *SIZES),
    "position-embedding": _choice(
        "positions of a new model: learned, or sinusoidal as in the Transformer (default: learned)",
        *("learned", "sinusoidal"),
    ),
    "position-initializer": _choice(
        "learned positions of a new model: normal, or sinusoidal: start as the Transformer's (default: normal)",
        *("normal", "sinusoidal"),
    ),
    "initializer-stddev": _number(
        "standard deviation of new weights (default: 0.02); scaled: 0.02 · √(768 / width)", stddev_or_scaled, "X"
    ),
    "dropout": _number("dropout rate (default: the model's own, 0.1 for a new one)", rate, "X"),
    "sequence-length": _number("tokens of a row; longer texts and pairs are truncated", default=128),
    "top-k": _number("number of tokens to propose for each [MASK] (default: as stored with the model)"),
    "window-pooling": _choice(
        "for classifiers and regressors: how to pool the answers to the windows of a long text; off truncates the text "
        "(default: as stored with the model)",
        *("mean", "max", "off"),
    ),
    "null-threshold": _number(
        'for questions: by how much the score of "no answer" must exceed that of the best span; off: always '
        "answer (default: as stored with the model)",
        number_or_off,
        "X",
    ),
    # The examples of a pre-training
    "max-predictions": _number("the maximum number of masks in a row (default: 20 at length 128, 80 at 512)"),
    "whole-word": _switch("mask all pieces of a word together (Google's release of May 2019)"),
    "no-next-sentence": _switch(
        'no next sentence prediction: the "No NSP" ablation of section 5.1', "store_false", dest="next_sentence"
    ),
    "names": _path("mask the names in a file of learn_names.py as a whole"),
    "span-length": _number("mask spans of N tokens as a whole"),
    "mask-rate": _number("share of all tokens to predict (default: 0.15)", rate, "X"),
    "mask-token-rate": _number("share of the predicted tokens that become [MASK] (default: 0.8)", share, "X"),
    "keep-rate": _number("share of the predicted tokens that stay as they are (default: 0.1)", share, "X"),
    "random-token-rate": _number("share of the predicted tokens that become random (default: 0.1)", share, "X"),
    "dupe-factor": _number(
        "repeat pairs and masks after N epochs; the original repeats them after 10 (default: never)"
    ),
    "left-to-right": _switch('predict the next token: the "LTR" model of section 5.1'),
    "random-next-rate": _number("share of pairs with a random second segment (default: 0.5)", share, "X"),
    "packed": _switch(
        "let several short pairs share a row, or never (default: if rows then hold at least 1.05 times as much text)",
        argparse.BooleanOptionalAction,
    ),
    "fill-rows": _switch("pack rows and fill them with further short pairs, for documents shorter than a row"),
    "evaluation-batches": _number("number of batches made from the held-out documents", default=50),
    # The training
    "epochs": _number("passes over the training examples", positive_float),
    "steps": _number("number of weight updates, instead of --epochs"),
    "hours": _number(
        "instead of --steps: hours to train; warm-up, decay and phases are shares of this time", positive_float, "X"
    ),
    "settings": _choice(
        "a set of defaults for the flags that are not given; see docs/pretraining.md", "paper", "small-budget"
    ),
    "phases": _name(
        "instead of --sequence-length: lengths and their shares of the run, such as the paper's 128:0.9 512:0.1; "
        ":BATCH_SIZE:MAX_PREDICTIONS may follow",
        "LENGTH:SHARE",
        nargs="+",
    ),
    "batch-size-ramp": _name(
        "start with batches of SIZE and double them up to --batch-size within SHARE of the run, such as 8:0.3",
        "SIZE:SHARE",
    ),
    "batch-size": _number("examples per update, over all replicas", default=32),
    "steps-per-execution": _number("number of steps that Keras runs in one call; the logs stay the same", default=1),
    "rematerialize": _switch(
        "recompute activations for the gradient instead of storing them: less memory, more time", default=None
    ),
    "optimizer": _choice("lamb is for batches of thousands", "adamw", "lamb", default="adamw"),
    "accumulate": _number("compute each update in N parts on every replica, to save memory", default=1),
    "learning-rate": _number("peak learning rate, at the end of the warm-up", positive_float, "X"),
    "warmup-steps": _number("steps of rising learning rate (default: a tenth of --steps, at most 10,000)"),
    "warmup-share": _number(
        "instead of --warmup-steps: share of --steps or --hours (default: a tenth of --hours)", rate, "X"
    ),
    "weight-decay": _number(
        "weight decay of all weights but biases and layer normalisations", share, "X", default=0.01
    ),
    "schedule": _choice(
        "learning rate after the warm-up: linear decay to 0 as in the paper; stable: constant, falling to 0 in the "
        "last fifth; or constant: then the same command with more --steps and the same --warmup-steps extends the run "
        "(default: linear)",
        *("linear", "stable", "constant"),
    ),
    "layer-decay": _number("ratio of a layer's learning rate to that of the layer above it", positive_float, "X"),
    "lora-rank": _number("train LoRA's matrices of rank N and the head, instead of all weights"),
    "seed": _number("determines new weights, dropout and the order of the examples", int, default=0),
    "restarts": _number("number of seeds of each fine-tuning", default=3),
    "evaluate-every": _number("steps between evaluations, or epoch", epoch_or_int, default="epoch"),
    "patience": _number("stop after N evaluations without improvement"),
    "keep": _choice("which weights to keep: those that score best on dev, or the last", "best", "last", default="best"),
    "class-weight": _name(
        "factors of labels in the loss; balanced: every label has the same total weight (default: 1 for all)",
        *("LABEL=X",),
        nargs="+",
        action=ClassWeight,
    ),
    "bias-correction": _switch("use Adam's bias correction, which BERT's optimizer lacks"),
    "group-by-length": _switch("put texts of similar length into one batch: faster, but batches are less random"),
    "bilstm": _switch("put a new BiLSTM under the head, as section 5.1 does for a left-to-right model"),
    "random-weights": _switch("take only the architecture and vocabulary of --init"),
    # The machine
    "strategy": _choice(
        "how to divide the work among devices, or (multiworker) among machines",
        *("auto", "one", "mirrored", "multiworker", "tpu"),
        default="auto",
    ),
    "logical-cpus": _number("split the CPU into N devices, to try --strategy mirrored without GPUs"),
    "precision": _choice(
        "precision of the computation; weights are always float32",
        *_PRECISIONS,
        default="auto",
    ),
    "xla": _choice("whether XLA compiles the step; auto: on one GPU, and on JAX", "auto", "on", "off", default="auto"),
    "data-service": _name(
        "with --records: HOST:PORT of a recipes/serve_data.py that makes the training batches", "ADDRESS"
    ),
    # The studies of recipes/ablations.py
    "pretraining-batch-size": _number("of the pre-trainings (default: that of --settings, or 32)"),
    "pretraining-length": _number("of the pre-trainings (default: that of --settings, or 128 tokens)"),
    "pretraining-learning-rate": _number(
        "of the pre-trainings (default: that of --settings, or 1e-4)", positive_float, "X"
    ),
    "pretraining-precision": _choice(
        "of the pre-trainings (default: that of --settings, or auto)",
        *_PRECISIONS,
    ),
    "feature-epochs": _number("epochs on features", positive_float, default=10.0),
    "feature-units": _number("units of the BiLSTMs on features, in each direction", default=768),
    # What is written
    "output": _path(
        "directory for all results; an unfinished run with the same settings in it is resumed",
        pathlib.Path,
        "DIR",
        required=True,
    ),
    "results": _path("directory of the tables (default: results/ in --output)", pathlib.Path, "DIR"),
    "log-dir": _path("directory of the TensorBoard logs (default: logs/ in --output)", pathlib.Path, "DIR"),
    "log-every": _number(
        "steps between log lines (default: the divisor of --checkpoint-every nearest to 100)", metavar="STEPS"
    ),
    "checkpoint-every": _number(
        "steps between checkpoints, from which a killed run resumes", metavar="STEPS", default=200
    ),
    "keep-every": _number(
        "keep the checkpoints of every N steps, a multiple of --checkpoint-every, for --init RUN@STEP"
    ),
    "keep-best": _switch("keep the checkpoint with the lowest held-out loss, for --init RUN@STEP"),
    "profile": _number("profile these steps, such as 20:25, for TensorBoard", steps_to_profile, "STEPS"),
    "json": _switch("print the metrics as one JSON object on the last line"),
    "overwrite": _switch("delete the results of another run in --output"),
    "dry-run": _switch("estimate steps, memory and time, and train nothing"),
}
