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

from kbert import command_line as cli


def parse_arguments(argv):
    parser = cli.make_parser(__doc__)
    add, about = parser.add_argument, "directory of TriviaQA's documents"
    add("--questions", metavar="FILE", type=cli.existing_file, required=True, help="TriviaQA's JSON")
    add("--evidence", metavar="DIR", type=cli.existing_directory, required=True, help=about)
    words = "words of each document to keep (default: 400)"
    add("--words", metavar="N", type=cli.positive_int, default=400, help=words)
    output = {"metavar": "FILE", "help": "the .json to write"}
    cli.add_flags(parser, "output", "overwrite", output=output, overwrite={"help": "replace --output"})
    args = parser.parse_args(argv)
    cli.check_output_file(parser, args)
    return args


def main(argv=None):
    args = parse_arguments(argv)
    with cli.plain_errors():
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
    cli.run_program(main)
