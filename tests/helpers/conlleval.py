"""conlleval (Tjong Kim Sang and Buchholz 2000), its state machine transcribed rule by rule: what kbert is held to."""

import collections
import re


def conlleval(gold, predicted):
    """Counts of sentences of tags: (right, there, found), each {type: number}, and right and all tags."""
    right, there, found = (collections.Counter() for _ in range(3))
    right_tags = all_tags = 0
    in_correct = False
    last_correct = last_guessed = "O"
    last_correct_type = last_guessed_type = ""
    for truth, guesses in zip(gold, predicted, strict=True):
        rows = [(False, a, b) for a, b in zip(truth, guesses, strict=True)] + [(True, "O", "O")]
        for is_boundary, correct, guessed in rows:
            correct, correct_type = _split(correct)
            guessed, guessed_type = _split(guessed)
            correct_ends = _ends(last_correct, correct, last_correct_type, correct_type)
            guessed_ends = _ends(last_guessed, guessed, last_guessed_type, guessed_type)
            if in_correct:
                if correct_ends and guessed_ends and last_guessed_type == last_correct_type:
                    in_correct = False
                    right[last_correct_type] += 1
                elif correct_ends != guessed_ends or guessed_type != correct_type:
                    in_correct = False
            correct_starts = _starts(last_correct, correct, last_correct_type, correct_type)
            guessed_starts = _starts(last_guessed, guessed, last_guessed_type, guessed_type)
            if correct_starts and guessed_starts and guessed_type == correct_type:
                in_correct = True
            there[correct_type] += correct_starts
            found[guessed_type] += guessed_starts
            if not is_boundary:
                right_tags += correct == guessed and guessed_type == correct_type
                all_tags += 1
            last_correct, last_guessed = correct, guessed
            last_correct_type, last_guessed_type = correct_type, guessed_type
    if in_correct:
        right[last_correct_type] += 1
    return +right, +there, +found, right_tags, all_tags


def _split(tag):
    match = re.match(r"^([^-]*)-(.*)$", tag)
    return (match.group(1), match.group(2)) if match else (tag, "")


def _ends(before, tag, type_before, type_):
    ends = False
    if before == "B" and tag == "B":
        ends = True
    if before == "B" and tag == "O":
        ends = True
    if before == "I" and tag == "B":
        ends = True
    if before == "I" and tag == "O":
        ends = True
    if before == "E" and tag == "E":
        ends = True
    if before == "E" and tag == "I":
        ends = True
    if before == "E" and tag == "O":
        ends = True
    if before != "O" and before != "." and type_before != type_:
        ends = True
    return ends


def _starts(before, tag, type_before, type_):
    starts = False
    if before == "B" and tag == "B":
        starts = True
    if before == "I" and tag == "B":
        starts = True
    if before == "O" and tag == "B":
        starts = True
    if before == "O" and tag == "I":
        starts = True
    if before == "E" and tag == "E":
        starts = True
    if before == "E" and tag == "I":
        starts = True
    if before == "O" and tag == "E":
        starts = True
    if tag != "O" and tag != "." and type_before != type_:
        starts = True
    return starts
