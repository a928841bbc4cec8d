"""Ask a model on a TensorFlow Serving, and see the curl line that asks the same.

    python recipes/query_server.py "A charming journey." "A mess." --url http://localhost:8501 --model reviews
    python recipes/query_server.py --pair "How old are you?" "I am 27." --model pairs
    python recipes/query_server.py --question "Who spoke?" --context-file minutes.txt --model squad
    python recipes/query_server.py --prompt "She opened the door and" --choice "went in." --choice "sang." --model swag
    python recipes/query_server.py --input rows.jsonl --model reviews --batch-size 32 --url grpc://localhost:8500

--input: a file with a JSON object a line, its keys the columns of the signature (text; text and text_pair; question and
context; prompt and choices). Answers are printed as one JSON object a row, on standard output, without what a server
fills lists up with; the curl line goes to standard error. The signatures classify and regress are asked for as
TensorFlow Serving wants it, with tf.Examples. Errors are one line, and end with status 1: a server that is not there is
tried again a few times.
"""

import argparse
import itertools
import json
import sys

from flags import command, plain_errors, positive_float, positive_int
from flags import file as existing_file

from kbert.files import parse_json


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", metavar="TEXT", nargs="*", help="single texts")
    parser.add_argument("--pair", metavar=("A", "B"), nargs=2, help="a pair of texts")
    parser.add_argument("--question", metavar="Q", help="a question; its context is in --context-file")
    parser.add_argument("--context-file", metavar="FILE", type=existing_file, help="a text file that holds the answer")
    parser.add_argument("--prompt", metavar="P", help="a prompt, to be continued by one of the choices")
    parser.add_argument("--choice", metavar="C", action="append", default=[], help="a choice; given several times")
    parser.add_argument("--input", metavar="FILE", type=existing_file, help="a file with a JSON object a line")
    parser.add_argument("--url", default="http://localhost:8501",
                        help="http://host:8501, or grpc://host:8500 (default: http://localhost:8501)")  # fmt: skip
    parser.add_argument("--model", metavar="NAME", required=True, help="the model's name on the server")
    parser.add_argument("--version", metavar="N", type=positive_int, help="its version (default: the server's choice)")
    parser.add_argument("--label", metavar="NAME", help="a version label, such as stable, in place of --version")
    parser.add_argument("--signature", metavar="NAME", default="serving_default", help="(default: serving_default)")
    parser.add_argument("--timeout", metavar="SECONDS", type=positive_float, default=10.0, help="(default: 10)")
    parser.add_argument("--tries", metavar="N", type=positive_int, default=3,
                        help="how often to try a server that is not there or overloaded (default: 3)")  # fmt: skip
    parser.add_argument("--batch-size", metavar="N", type=positive_int, default=32,
                        help="rows of a request, for --input (default: 32)")  # fmt: skip
    args = parser.parse_args(argv)
    given = [args.texts, args.pair, args.question is not None, args.prompt is not None, args.input]
    if sum(map(bool, given)) != 1:
        parser.error("give texts, --pair, --question, --prompt or --input: one of them")
    if (args.question is None) != (args.context_file is None):
        parser.error("--question and --context-file belong together")
    if (args.prompt is None) != (not args.choice):
        parser.error("--prompt and --choice belong together")
    return args


def rows_of(args):
    """The rows to ask, dicts of column → string."""
    if args.input:
        yield from read_jsonl(args.input)
    elif args.pair:
        yield {"text": args.pair[0], "text_pair": args.pair[1]}
    elif args.question is not None:
        yield {"question": args.question, "context": args.context_file.read_text("utf-8", errors="replace")}
    elif args.prompt is not None:
        yield {"prompt": args.prompt, "choices": args.choice}
    else:
        yield from ({"text": text} for text in args.texts)


def read_jsonl(path):
    """The objects of a JSON Lines file; blank lines are skipped."""
    columns = None
    for number, line in enumerate(path.read_text("utf-8-sig").split("\n"), start=1):
        if not line.strip():
            continue
        row = parse_json(line, f"{path}, line {number}")
        columns = columns or (sorted(row) if isinstance(row, dict) else None)
        if not isinstance(row, dict) or sorted(row) != columns:
            raise ValueError(
                f"{path}, line {number}: expected an object with {columns or 'columns'}. Received: {line:.80}"
            )
        yield row


def ask(client, rows, signature):
    """The answers to some rows, a dict each."""
    if signature == "classify":
        print(client.curl(rows, signature, "classify"), file=sys.stderr)
        yield from ({"probabilities": dict(scores)} for scores in client.classify(rows, signature))
    elif signature == "regress":
        print(client.curl(rows, signature, "regress"), file=sys.stderr)
        yield from ({"score": score} for score in client.regress(rows, signature))
    else:
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        print(client.curl(columns, signature), file=sys.stderr)
        answers = client.predict(columns, signature)
        yield from ({name: values[number] for name, values in answers.items()} for number in range(len(rows)))


def main(argv=None):
    args = parse_arguments(argv)
    with plain_errors():
        from kbert.serving.client import ServingClient

        client = ServingClient(args.url, args.model, args.version, args.label, args.timeout, args.tries)
        rows = rows_of(args)
        while batch := list(itertools.islice(rows, args.batch_size)):
            for answer in ask(client, batch, args.signature):
                print(json.dumps(answer, ensure_ascii=False))


if __name__ == "__main__":
    command(main)
