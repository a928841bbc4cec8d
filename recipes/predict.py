"""Run a trained model on every text of a file.

    python recipes/predict.py --model runs/reviews --input texts.csv --output answers.jsonl
    python recipes/predict.py --model runs/reviews --input others.csv --text-column review --output answers.jsonl
    python recipes/predict.py --model runs/pretrained --input sentences.txt --output answers.jsonl
    python recipes/predict.py --model runs/squad --input dev-v2.0.json --output answers.jsonl

A classifier returns label and probabilities, a regressor a score, a pre-trained model tokens for each [MASK], an
encoder an embedding, multiple choice the number of the best choice, a tagger the entities (or all words:
--tagging-output tags), a span extractor the answer, its position in the context, and the n best answers.
--input: a .csv, .tsv or .jsonl file is read by columns, by default those that a fine-tuned model was trained on, if the
file has them, or else text, text_pair, question, context, prompt and choices; a SQuAD .json file has questions; any
other file is read line by line (for pairs: two texts separated by a tab; for questions: question, tab, context).
--output: .jsonl, or .csv if an answer fits into a row of a table. The file appears when it is complete; the same
command resumes a killed run; one process at a time writes to it. The .metrics.json beside it has settings and time.
--model may also be a SavedModel written by export.py; then the settings are those of the export. With --runner, Apache
Beam runs several processes or machines, with the same result; what follows -- are Beam's own flags (docs/beam.md).

    python recipes/predict.py --model saved_models/reviews/1 --input texts.csv --output answers.jsonl \\
        --runner DirectRunner -- --direct_num_workers=4 --direct_running_mode=multi_processing
"""

import time

from kbert import command_line as cli
from kbert.command_line.flag_table import CHOICE_FORMAT


def parse_arguments(argv):
    parser = cli.make_parser(__doc__)
    model = {"help": "the model: as for --init of other recipes, or a SavedModel"}
    cli.add_flags(parser, "model", "input", "question-column", "context-column", model=model)
    cli.add_trained_flags(parser, "text-column", "text-pair-column", "prompt-column", "choice-columns")
    cli.add_trained_flags(parser, "format", format=CHOICE_FORMAT)
    parser.set_defaults(question_column=None, context_column=None)  # a given column must be an input of the model
    add = parser.add_argument
    add("--keep", metavar="NAME", nargs="+", default=[], help="columns to copy to the output")
    add("--tagging-output", choices=("tags", "entities"), help="what a tagger returns (default: entities)")
    cli.add_flags(
        parser,
        *("sequence-length", "top-k", "window-pooling", "null-threshold", "output", "batch-size", "precision"),
        "overwrite",
        sequence_length={"default": None, "help": "tokens of a row (default: the model's)"},
        output={"metavar": "FILE", "help": "file for the answers"},
        batch_size={"help": "texts per batch"},
        overwrite={"help": "replace --output, and what a killed run with other settings left"},
    )
    args = cli.parse_with_beam_flags(parser, argv)
    args.metrics = args.output.with_suffix(".metrics.json")
    cli.check_output_file(parser, args, args.metrics, endings=(".jsonl", ".csv"))
    if args.keep and args.input.suffix.lower() not in (".csv", ".tsv", ".jsonl", ".ndjson"):
        parser.error("--keep needs an input with columns")
    return args


def main(argv=None):
    args, start = parse_arguments(argv), time.monotonic()
    with cli.plain_errors():
        from kbert.files import write_json
        from kbert.finetuning.predict_file import predict_file
        from kbert.finetuning.predict_file_with_beam import predict_file_with_beam
        from kbert.serving.exported_pipeline import pipeline_loader, trained_options

        options = cli.given(args, "sequence_length", "top_k", "tagging_output") | cli.stored_options(args)
        load = pipeline_loader(args.model, args.precision, **options)
        reading = cli.given(args, "keep", "batch_size", "overwrite", "format", "choice_columns")
        reading |= {"columns": cli.columns_of(args), "trained": trained_options(args.model)}
        if args.runner is None:
            texts = predict_file(load(), args.input, args.output, **reading)
        else:
            beam = cli.given(args, "runner", "beam_flags", "shared")
            texts = predict_file_with_beam(load, args.input, args.output, **beam, **reading)
        seconds = round(time.monotonic() - start, 1)
        write_json(args.metrics, {"settings": cli.settings_of(args, "metrics"), "texts": texts, "seconds": seconds})
    print(f"{texts:,} texts in {seconds:,.1f} s. Wrote {args.output}.")


if __name__ == "__main__":
    cli.run_program(main, resumes=True)
