"""Query a model on a TensorFlow Serving server, and print the curl line of the same request.

    python recipes/query_server.py "A charming journey." "A mess." --url http://localhost:8501 --model reviews
    python recipes/query_server.py --pair "How old are you?" "I am 27." --model pairs
    python recipes/query_server.py --question "Who spoke?" --context-file minutes.txt --model squad
    python recipes/query_server.py --prompt "She opened the door and" --choice "went in." --choice "sang." --model swag
    python recipes/query_server.py --input rows.jsonl --model reviews --batch-size 32 --url grpc://localhost:8500

--input: a file with a JSON object per line, whose keys are the columns of the signature (text; text and text_pair;
question and context; prompt and choices). Answers are printed as one JSON object per row, on standard output, without
the padding of the server's lists; the curl line goes to standard error. The signatures classify and regress are sent
tf.Examples, as TensorFlow Serving requires. A server that cannot be reached is tried again a few times; errors are one
line, with exit status 1.
"""

import argparse
import itertools
import json

from flags import command, plain_errors, positive_float, positive_int
from flags import file as existing_file


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("texts", metavar="TEXT", nargs="*", help="single texts")
    add("--pair", metavar=("A", "B"), nargs=2, help="a pair of texts")
    add("--question", metavar="Q", help="a question; its context is in --context-file")
    add("--context-file", metavar="FILE", type=existing_file, help="a text file that holds the answer")
    add("--prompt", metavar="P", help="a prompt, to be continued by one of the choices")
    add("--choice", metavar="C", action="append", default=[], help="a choice; given several times")
    add("--input", metavar="FILE", type=existing_file, help="a file with a JSON object a line")
    url = "http://localhost:8501"
    help = f"http://host:8501 or grpc://host:8500; with TLS https:// or grpcs:// (default: {url})"
    add("--url", default=url, help=help)
    help = "PEM file of the certificates that sign the server's (default: public authorities)"
    add("--root-certificates", metavar="FILE", type=existing_file, help=help)
    files, help = ("CERTIFICATE", "KEY"), "PEM files that authenticate the client"
    add("--client-certificate", metavar=files, nargs=2, type=existing_file, help=help)
    add("--model", metavar="NAME", required=True, help="the model's name on the server")
    add("--version", metavar="N", type=positive_int, help="its version (default: the server's choice)")
    add("--label", metavar="NAME", help="a version label, such as stable, in place of --version")
    add("--signature", metavar="NAME", default="serving_default", help="(default: serving_default)")
    add("--timeout", metavar="SECONDS", type=positive_float, default=10.0, help="(default: 10)")
    add("--tries", metavar="N", type=positive_int, default=3, help="of a busy server (default: 3)")
    add("--batch-size", metavar="N", type=positive_int, default=32, help="of --input (default: 32)")
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
    from kbert.serving.ask import read_json_rows

    if args.input:
        return read_json_rows(args.input)
    if args.pair:
        return iter([{"text": args.pair[0], "text_pair": args.pair[1]}])
    if args.question is not None:
        return iter([{"question": args.question, "context": args.context_file.read_text("utf-8", errors="replace")}])
    if args.prompt is not None:
        return iter([{"prompt": args.prompt, "choices": args.choice}])
    return ({"text": text} for text in args.texts)


def main(argv=None):
    args = parse_arguments(argv)
    with plain_errors():
        from kbert.serving.ask import ask
        from kbert.serving.client import ServingClient

        which = {"version": args.version, "label": args.label}
        tls = {"root_certificates": args.root_certificates, "client_certificate": args.client_certificate}
        client = ServingClient(args.url, args.model, **which, timeout=args.timeout, tries=args.tries, **tls)
        rows = rows_of(args)
        while batch := list(itertools.islice(rows, args.batch_size)):
            for answer in ask(client, batch, args.signature):
                print(json.dumps(answer, ensure_ascii=False))


if __name__ == "__main__":
    command(main)
