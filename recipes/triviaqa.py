"""Convert TriviaQA to SQuAD's format, to fine-tune on it before SQuAD: section 4.2 of the paper.

    python recipes/triviaqa.py --questions qa/wikipedia-train.json --evidence evidence --output triviaqa.json
    kbert finetune span --source google-bert/bert-base-uncased --train triviaqa.json --output runs/triviaqa
    kbert finetune span --source runs/triviaqa --train train-v1.1.json --dev dev-v1.1.json --output runs/squad

TriviaQA (Joshi et al. 2017) names the answer and its aliases, but not their position. As in footnote 5 of the paper,
each document is cut to its first 400 words and kept if they contain an alias. The position is the first occurrence of
the longest alias. Case is ignored, and an alias inside a longer word does not count.
"""

import json
import pathlib
import re
from collections.abc import Iterable, Iterator

from kbert.aliases import PathLike
from kbert.cli import Command, run_command
from kbert.options import Count

DOCUMENTS = (("EntityPages", "wikipedia"), ("SearchResults", "web"))  # list in the JSON, folder of its files


def triviaqa(questions: PathLike, evidence: PathLike, output: PathLike, *, words: Count = 400) -> int:
    """Writes each question once for each of its documents that contains an answer.

    Args:
        questions: TriviaQA's JSON, such as wikipedia-train.json.
        evidence: directory with TriviaQA's folders wikipedia and web.
        output: the .json to write.
        words: words of each document to keep.
    """
    output = pathlib.Path(output)
    if output.exists():
        raise FileExistsError(f"{output} already exists. Delete it or choose another --output.")
    articles = []
    read = 0
    for question in json.loads(pathlib.Path(questions).read_text(encoding="utf-8"))["Data"]:
        answer = question["Answer"]
        aliases = [answer["Value"], *answer.get("Aliases", [])]
        for name, path in files_of(question, pathlib.Path(evidence)):
            read += 1
            context = first_words(path.read_text(encoding="utf-8", errors="replace"), words)
            start, end = find_answer(context, aliases)
            if start < 0:
                continue
            found = {"text": context[start:end], "answer_start": start}
            asked = {"id": f"{question['QuestionId']}--{name}", "question": question["Question"], "answers": [found]}
            articles.append({"title": name, "paragraphs": [{"context": context, "qas": [asked]}]})
    if not articles:
        raise ValueError(f"{evidence}: {read:,} documents found, none with an answer in its first {words} words.")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({"version": "1.1", "data": articles}, ensure_ascii=False), encoding="utf-8")
    print(f"{output}: {len(articles):,} questions from {read:,} documents")
    return len(articles)


def files_of(question: dict, evidence: pathlib.Path) -> Iterator[tuple[str, pathlib.Path]]:
    """The names and paths of a question's documents, each once. TriviaQA lists some twice and lacks others."""
    folders = {page.get("Filename"): folder for key, folder in DOCUMENTS for page in question.get(key, [])}
    for name, folder in folders.items():
        if name and (evidence / folder / name).is_file():
            yield name, evidence / folder / name


def first_words(text: str, count: int) -> str:
    """The text up to the end of its `count`-th word, with its white space."""
    return re.match(rf"(?:\s*\S+){{0,{count}}}", text)[0]


def find_answer(context: str, aliases: Iterable[str]) -> tuple[int, int]:
    """(start, end) of the first occurrence of the longest alias in the context, or (-1, -1)."""
    for alias in sorted({alias.strip() for alias in aliases} - {""}, key=lambda alias: (-len(alias), alias)):
        if match := re.search(rf"(?<!\w){re.escape(alias)}(?!\w)", context, re.IGNORECASE):
            return match.span()
    return -1, -1


COMMAND = Command(verb=triviaqa, epilog=__doc__)

if __name__ == "__main__":
    run_command(COMMAND)
