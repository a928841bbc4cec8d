"""TriviaQA's questions and documents → SQuAD's format: additional training data before SQuAD, as in the paper."""

import pathlib
import re
from collections.abc import Iterable, Iterator

from kbert.files import read_json
from kbert.options import PathLike
from kbert.tasks.table import check_characters

_WORD = re.compile(r"\S+")


def triviaqa_questions(questions: PathLike, evidence: PathLike, words: int = 400) -> Iterator[dict]:
    """Each question with each of its documents whose beginning holds an answer, as an article of SQuAD's JSON.

    TriviaQA says what the answer is, but not where. As in the paper, a document is cut to its first `words` words, and
    is used if they contain at least one alias of the answer. The answer is the first occurrence of the longest alias
    found. Case is ignored, and an alias inside a longer word does not count.

    `questions` is TriviaQA's JSON (``wikipedia-train.json``, ``web-train.json``). `evidence` is its directory
    ``evidence``, with ``wikipedia/`` and ``web/``, or one of these.

    Source: Devlin et al. 2018, section 4.2, footnote 5; Joshi et al. 2017 for the layout.
    """
    path = pathlib.Path(questions)
    evidence = pathlib.Path(evidence)
    content = read_json(path, object, data=True)
    if not isinstance(content, dict) or not isinstance(content.get("Data"), list):
        raise ValueError(f"{path}: expected TriviaQA's JSON, with 'Data', a list of questions.")
    read = 0
    done = set()
    for number, question in enumerate(content["Data"]):
        aliases = _aliases(path, number, question)
        for kind, name in _documents(question):
            if not (evidence / name).resolve().is_relative_to(evidence.resolve()):
                raise ValueError(f"{path}, Data[{number}]: expected documents inside {evidence}. Received: {name!r}")
            file = next((p for p in (evidence / kind / name, evidence / name) if p.is_file()), None)
            if file is None:
                continue
            read += 1
            if (key := (str(question["QuestionId"]), name)) in done:  # listed twice; ids must differ
                continue
            done.add(key)
            context = first_words(file.read_text(encoding="utf-8", errors="replace"), words)
            start, end = find_answer(context, aliases)
            if start >= 0:
                yield _article(question, name, context, start, end)
    if not read:
        raise FileNotFoundError(f"{evidence} holds none of the documents that {path} names: expected wikipedia/, web/.")


def first_words(text: str, count: int) -> str:
    """The text up to the end of its `count`-th word, unchanged."""
    for number, word in enumerate(_WORD.finditer(text), start=1):
        if number == count:
            return text[: word.end()]
    return text


def find_answer(context: str, aliases: Iterable[str]) -> tuple[int, int]:
    """(start, end) of the first occurrence of the longest alias in the context, (-1, -1) if there is none."""
    for alias in sorted(set(filter(str.strip, aliases)), key=lambda text: (-len(text), text)):
        match = re.search(rf"(?<!\w){re.escape(alias.strip())}(?!\w)", context, re.IGNORECASE)
        if match:
            return match.span()
    return -1, -1


def _aliases(path, number, question):
    answer = question.get("Answer") if isinstance(question, dict) else None
    if not isinstance(answer, dict) or not {"Question", "QuestionId"} <= question.keys():
        raise ValueError(f"{path}, Data[{number}]: expected 'Question', 'QuestionId' and 'Answer'.")
    listed = answer.get("Aliases") or []
    aliases = [answer.get("Value") or "", *(listed if isinstance(listed, list) else [listed])]
    if not isinstance(listed, list) or not all(isinstance(text, str) for text in (question["Question"], *aliases)):
        raise ValueError(f"{path}, Data[{number}]: expected strings as 'Question' and 'Value', a list as 'Aliases'.")
    for text in (question["Question"], *aliases):
        check_characters(text, f"{path}, Data[{number}]")
    return aliases


def _documents(question):
    for key, kind in (("EntityPages", "wikipedia"), ("SearchResults", "web")):
        for page in question.get(key) or []:
            if isinstance(page, dict) and isinstance(page.get("Filename"), str):
                yield kind, page["Filename"]


def _article(question, name, context, start, end):
    answer = {"text": context[start:end], "answer_start": start}
    asked = {"id": f"{question['QuestionId']}--{name}", "question": question["Question"], "answers": [answer]}
    return {"title": name, "paragraphs": [{"context": context, "qas": [asked]}]}
