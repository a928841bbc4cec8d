"""Query a model on a TensorFlow Serving server, and print the curl line of the same request.

    python recipes/query_server.py "A charming journey." "A mess." --url http://localhost:8501 --model reviews
    python recipes/query_server.py --pair "How old are you?" "I am 27." --model pairs
    python recipes/query_server.py --question "Who spoke?" --context-file minutes.txt --model squad
    python recipes/query_server.py --prompt "She opened the door and" --choice "went in." --choice "sang." --model swag
    python recipes/query_server.py --input rows.jsonl --model reviews --batch-size 32 --url grpc://localhost:8500

--input has a JSON object per line, whose keys are the columns of the signature (text; text and text_pair; question and
context; prompt and choices). Answers are printed on standard output as one JSON object per row, without the padding of
the server's lists; the curl command is printed on standard error. The signatures classify and regress are sent
tf.Examples, as TensorFlow Serving requires. If the server cannot be reached, the request is repeated (--tries).
"""

import json

from kbert import command_line as cli


def parse_arguments(argv):
    parser, file = cli.make_parser(__doc__), {"metavar": "FILE", "type": cli.existing_file}
    add = parser.add_argument
    add("texts", metavar="TEXT", nargs="*", help="single texts")
    add("--pair", metavar=("A", "B"), nargs=2, help="a pair of texts")
    add("--question", metavar="Q", help="a question; its context is in --context-file")
    add("--context-file", **file, help="a text file with the context of the question")
    add("--prompt", metavar="P", help="a prompt, for which one of the choices is chosen")
    add("--choice", metavar="C", action="append", default=[], help="a choice; repeat it for each choice")
    rows, size = "a file with one JSON object per line", {"help": "rows of --input per request"}
    cli.add_flags(parser, "input", "batch-size", input={"required": False, "help": rows}, batch_size=size)
    url = "http://host:8501 or grpc://host:8500; with TLS https:// or grpcs:// (default: http://localhost:8501)"
    add("--url", default="http://localhost:8501", help=url)
    trusted = "PEM file of the certificate authorities to trust (default: the public ones)"
    add("--root-certificates", **file, help=trusted)
    pair = file | {"metavar": ("CERTIFICATE", "KEY"), "nargs": 2}
    add("--client-certificate", **pair, help="PEM files that authenticate the client")
    add("--model", metavar="NAME", required=True, help="the model's name on the server")
    add("--version", metavar="N", type=cli.positive_int, help="the model's version (default: the server's choice)")
    add("--label", metavar="NAME", help="a version label, such as stable, instead of --version")
    add("--signature", metavar="NAME", default="serving_default", help="the signature (default: serving_default)")
    add("--timeout", metavar="SECONDS", type=cli.positive_float, default=10.0, help="time for a request (default: 10)")
    add("--tries", metavar="N", type=cli.positive_int, default=3, help="attempts if the server is busy (default: 3)")
    args = parser.parse_args(argv)
    given = [args.texts, args.pair, args.question is not None, args.prompt is not None, args.input]
    if sum(map(bool, given)) != 1:
        parser.error("give exactly one of: texts, --pair, --question, --prompt, --input")
    if (args.question is None) != (args.context_file is None):
        parser.error("--question and --context-file must be given together")
    if (args.prompt is None) != (not args.choice):
        parser.error("--prompt and --choice must be given together")
    return args


def rows_of(args):
    """The rows to ask about, column → text."""
    from kbert.serving.client import read_json_rows

    if args.input:
        return read_json_rows(args.input)
    if args.question is not None:
        return [{"question": args.question, "context": args.context_file.read_text("utf-8", errors="replace")}]
    if args.prompt is not None:
        return [{"prompt": args.prompt, "choices": args.choice}]
    return [{"text": args.pair[0], "text_pair": args.pair[1]}] if args.pair else [{"text": one} for one in args.texts]


def main(argv=None):
    args = parse_arguments(argv)
    with cli.plain_errors():
        from kbert.serving.client import ServingClient, ask

        names = ("version", "label", "timeout", "tries", "root_certificates", "client_certificate")
        client = ServingClient(args.url, args.model, **cli.given(args, *names))
        for answer in ask(client, rows_of(args), args.signature, args.batch_size):
            print(json.dumps(answer, ensure_ascii=False))


if __name__ == "__main__":
    cli.run_program(main)
