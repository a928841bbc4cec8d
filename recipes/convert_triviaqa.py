"""Convert TriviaQA to SQuAD's JSON, to train on it before SQuAD, as the paper's best systems did (section 4.2).

    python recipes/convert_triviaqa.py --questions triviaqa/qa/wikipedia-train.json --evidence triviaqa/evidence \\
        --output triviaqa.json
    python recipes/finetune_squad.py --train triviaqa.json --dev squad/dev-v1.1.json \\
        --init saved_models/kbert-tiny --output runs/qa --sequence-length 128 --learning-rate 3e-4 --epochs 6
    python recipes/finetune_squad.py --data squad --version 1.1 --init runs/qa --output runs/squad \\
        --sequence-length 128 --learning-rate 3e-4 --epochs 6

Each document is truncated to its first 400 words, and is used only if these contain one of the answer's aliases.
"""

import json
import pathlib

from kbert.command_line import existing_directory, existing_file, make_parser, plain_errors, positive_int, run_program


def parse_arguments(argv):
    parser = make_parser(__doc__)
    parser.add_argument("--questions", metavar="FILE", type=existing_file, required=True, help="TriviaQA's JSON")
    parser.add_argument(
        "--evidence", metavar="DIR", type=existing_directory, required=True, help="directory of TriviaQA's documents"
    )
    words = "words of each document to keep (default: 400)"
    parser.add_argument("--words", metavar="N", type=positive_int, default=400, help=words)
    parser.add_argument("--output", metavar="FILE", type=pathlib.Path, required=True, help="the .json to write")
    parser.add_argument("--overwrite", action="store_true", help="replace --output")
    args = parser.parse_args(argv)
    if args.output.exists() and not args.overwrite:
        parser.error(f"{args.output} already exists; --overwrite replaces it")
    return args


def main(argv=None):
    args = parse_arguments(argv)
    with plain_errors():
        from kbert.files import atomic_file
        from kbert.tasks.span.triviaqa import triviaqa_questions

        articles = list(triviaqa_questions(args.questions, args.evidence, args.words))
        if not articles:
            raise ValueError(f"no document contains an answer in its first {args.words} words")
        args.output.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(args.output) as file:
            json.dump({"version": "1.1", "data": articles}, file, ensure_ascii=False)
    print(f"Wrote {args.output}: {len(articles):,} questions, each with a document that contains the answer.")


if __name__ == "__main__":
    run_program(main)
