"""Answer every text of a file with a trained model.

    python recipes/predict.py --model runs/reviews --input texts.csv --text-column review --output answers.jsonl
    python recipes/predict.py --model runs/pretrained --input sentences.txt --output answers.jsonl

A classifier gives label and probabilities, a regressor a score, a pre-trained model tokens for each [MASK] in the text,
an encoder an embedding, a model of choices the number of the best one, a tagger the entities of the text (or all
words: --tagging-output tags), a model of questions the answer out of the context, where it stands and the n best.
--input: .csv, .tsv or .jsonl, read by columns; questions also SQuAD's .json; any other file is read line by line, each
line a text (for models of pairs: two texts with a tab between them; for questions: question, tab, context).
--output: .jsonl, or .csv (not for fill-mask; of questions without the n best); one row a text, in the order
of the input. It appears when all is done, or not at all; the file beside it that ends in .metrics.json tells the
settings, how many texts there were and how long they took.
"""

import argparse
import contextlib
import csv
import itertools
import json
import sys
import time

from flags import (
    add_choice_flags,
    add_flags,
    add_stored_flags,
    command,
    plain_errors,
    positive_int,
    settings_of,
    source,
    stored_options,
)
from flags import file as existing_file

TABLES = (".csv", ".tsv", ".jsonl", ".ndjson")


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", metavar="SOURCE", type=source, required=True,
                        help="kbert directory, or the output of a recipe")  # fmt: skip
    parser.add_argument("--input", metavar="FILE", type=existing_file, required=True, help="the texts")
    parser.add_argument("--text-column", metavar="NAME", default="text", help="column of the text (default: text)")
    parser.add_argument("--text-pair-column", metavar="NAME", default="text_pair",
                        help="column of the second text, for models of pairs (default: text_pair)")  # fmt: skip
    parser.add_argument("--question-column", metavar="NAME", default="question",
                        help="column of the question (default: question)")  # fmt: skip
    parser.add_argument("--context-column", metavar="NAME", default="context",
                        help="column of the text that a question is asked of (default: context)")  # fmt: skip
    add_choice_flags(parser)
    parser.add_argument("--keep", metavar="NAME", nargs="+", default=[],
                        help="columns of the input to copy to the output, beside the texts")  # fmt: skip
    parser.add_argument("--sequence-length", metavar="N", type=positive_int,
                        help="tokens of a text or pair; longer ones are truncated (default: the model's)")  # fmt: skip
    parser.add_argument("--top-k", metavar="N", type=positive_int,
                        help="tokens to propose for each [MASK] (default: the model's)")  # fmt: skip
    add_stored_flags(parser)
    parser.add_argument("--tagging-output", choices=("tags", "entities"),
                        help="what a tagger gives: the tag of every word, or entities (default: entities)")  # fmt: skip
    add_flags(parser, "output", "batch-size", "precision", "overwrite",
              output={"metavar": "FILE", "help": "where the answers go: .jsonl or .csv"},
              batch_size={"help": "texts a forward pass"}, overwrite={"help": "replace --output"})  # fmt: skip
    args = parser.parse_args(argv)
    if args.output.suffix.lower() not in (".jsonl", ".csv"):
        parser.error(f"--output must end in .jsonl or .csv. Received: {args.output}")
    for path in (args.output, metrics_path(args.output)):
        if path.exists() and not args.overwrite:
            parser.error(f"{path} exists; --overwrite replaces it")
    if args.keep and args.input.suffix.lower() not in TABLES:
        parser.error("--keep needs an input with columns")
    return args


def metrics_path(output):
    """Where the settings and the time go."""
    return output.with_suffix(".metrics.json")


def load(args):
    """The pipeline of the model."""
    import kbert
    from kbert.training.hardware import choose_hardware

    with choose_hardware("one", args.precision).scope():
        model = kbert.load_pretrained(args.model)
        answer = args.tagging_output or ("entities" if model.task == "tagging" else None)
        pipeline = kbert.build_pipeline(
            model, sequence_length=args.sequence_length, top_k=args.top_k, tagging_output=answer, **stored_options(args)
        )
    if args.output.suffix.lower() == ".csv" and not pipeline.answers.fits_table:
        raise ValueError(
            "tokens for [MASK], embeddings, tags, entities and choices fit no table; give --output a name in .jsonl"
        )
    return pipeline


def column_names(args, pipeline):
    """The pipeline's inputs, and the column that each is read from."""
    columns = {
        "text": args.text_column, "text_pair": args.text_pair_column, "question": args.question_column,
        "context": args.context_column, "prompt": args.prompt_column, "choices": "choices",
    }  # fmt: skip
    return {name: columns[name] for name in pipeline.preprocessor.input_names}


def read_rows(args, columns):
    """The input as an iterator of dicts: the texts under their columns' names, then the columns kept."""
    names = list(columns.values())
    if "choices" in columns:
        return read_choice_rows(args)
    if args.input.suffix.lower() == ".json" and "question" in columns:
        from kbert.tasks.span.readers import read_squad

        asked = read_squad(args.input, labelled=False)
        rows = zip(asked.ids, asked.questions, asked.contexts, strict=True)
        return (dict(zip(("id", columns["question"], columns["context"]), row, strict=True)) for row in rows)
    if args.input.suffix.lower() in TABLES:
        from kbert.tasks.table import read_table

        table = read_table(args.input, names)
        rows = (dict(zip(names, cells, strict=True)) for cells in zip(*(table[name] for name in names), strict=True))
        return with_kept(args, rows)
    return read_lines(args.input, names)


def read_choice_rows(args):
    """Prompts with their lists of choices, then the columns kept."""
    from kbert.tasks.multiple_choice.readers import read_prompts

    texts = read_prompts(args.input, args.format, args.prompt_column, args.choice_columns)
    names = (args.prompt_column, "choices")
    return with_kept(args, (dict(zip(names, row, strict=True)) for row in zip(*texts, strict=True)))


def with_kept(args, rows):
    """The rows, each with the columns to keep behind its texts; those of JSON lines have their values as they are."""
    from kbert.tasks.table import read_json_lines, read_table

    if not args.keep:
        return rows
    if args.input.suffix.lower() in (".jsonl", ".ndjson"):
        cells = []
        for number, entry in read_json_lines(args.input, as_written=False):
            if missing := [name for name in args.keep if name not in entry]:
                raise ValueError(f"{args.input}, line {number}: expected the keys {args.keep}. Missing: {missing}")
            cells.append([entry[name] for name in args.keep])
    else:
        table = read_table(args.input, args.keep)
        cells = zip(*(table[name] for name in args.keep), strict=True)
    return (row | dict(zip(args.keep, kept, strict=True)) | row for row, kept in zip(rows, cells, strict=True))


def read_lines(path, names):
    """Each line of a file as a text, or as two with a tab between them; bytes that are no UTF-8 become U+FFFD."""
    with open(path, encoding="utf-8-sig", errors="replace", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            texts = [line.removesuffix("\n").removesuffix("\r")]
            if len(names) == 2:
                texts = texts[0].split("\t")
                if len(texts) != 2:
                    raise ValueError(
                        f"{path}, line {number}: expected two texts with a tab between them. Received: {len(texts)}"
                    )
            yield dict(zip(names, texts, strict=True))


def answer(args, pipeline, rows, columns):
    """Each row with its answers, batch by batch."""
    start = shown = time.monotonic()
    done = 0
    while batch := list(itertools.islice(rows, args.batch_size)):
        # Always full batches, so that nothing is traced or compiled twice; the fill's answers are dropped.
        padded = batch + batch[-1:] * (args.batch_size - len(batch))
        answers = pipeline.predict_on_batch({name: [row[column] for row in padded] for name, column in columns.items()})
        for row, result in zip(batch, pipeline.answers.to_dicts(answers), strict=False):
            if clash := set(row) & set(result):
                raise ValueError(f"columns of the input have the names of answers: {sorted(clash)}; rename them")
            yield row | result
        done += len(batch)
        if time.monotonic() - shown > 2:
            shown = time.monotonic()
            print(f"{done:,} texts, {done / (shown - start):,.0f} a second", file=sys.stderr, flush=True)
    if not done:
        raise ValueError(f"{args.input} holds no text")
    print(f"{done:,} texts in {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)


@contextlib.contextmanager
def written_whole(path):
    """A file to write that gets its name only when all went well; until then its directory is not left behind."""
    from kbert.files import atomic_file

    new_directories = [parent for parent in path.parents if not parent.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with atomic_file(path) as file:
            yield file
    except BaseException:
        for directory in new_directories:
            directory.rmdir()
        raise


def write_jsonl(file, rows, answers):
    """One JSON object a line; returns how many."""
    number = 0
    for number, row in enumerate(rows, start=1):  # noqa: B007 - returned
        file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return number


def write_csv(file, rows, answers):
    """A table with a header; the probability of each label in a column of its own; returns the number of rows."""
    writer, number = None, 0
    for number, row in enumerate(rows, start=1):  # noqa: B007 - returned
        row = answers.table_row(row)
        if writer is None:
            writer = csv.DictWriter(file, row)
            writer.writeheader()
        writer.writerow(row)
    return number


def main(argv=None):
    args = parse_arguments(argv)
    start = time.monotonic()
    with plain_errors():
        from kbert.files import write_json

        pipeline = load(args)
        columns = column_names(args, pipeline)
        rows = read_rows(args, columns)
        write = write_csv if args.output.suffix.lower() == ".csv" else write_jsonl
        with written_whole(args.output) as file:
            texts = write(file, answer(args, pipeline, rows, columns), pipeline.answers)
        metrics = {"settings": settings_of(args), "texts": texts, "seconds": round(time.monotonic() - start, 1)}
        write_json(metrics_path(args.output), metrics)
    print(f"Wrote {args.output}.")


if __name__ == "__main__":
    command(main)
