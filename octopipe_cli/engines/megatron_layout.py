"""Megatron-LM's ``--pipeline-model-parallel-layout``: read as its parser does, judged as its validator does, written.

The parser and the validator: megatron/core/transformer/pipeline_parallel_layer_layout.py. Where they take what they do
not do, the rules here are stricter, and say so: the letters E and L place nothing, the embedding is always built in the
first stage and the loss in the last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from octopipe_cli.formats import show

#: What the letters stand for.
LETTERS: Final[Mapping[str, str]] = {"E": "embedding", "t": "decoder", "m": "mtp", "L": "loss"}

#: More letters than any model has layers; a short string may multiply to far more.
MAX_LETTERS: Final = 100_000
MAX_TEXT: Final = 20_000


class Problem(NamedTuple):
    """What is wrong with a layout: the stable id of the rule, one sentence, whether Megatron itself refuses it."""

    rule: str
    message: str
    megatron: bool = True


class LayoutSyntaxError(ValueError):
    """A string that is no layout; `problem` says why."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(rule, message)


def read_layout(text: str) -> tuple[str, ...]:
    """Return the letters of each stage, multiplications written out.

    Commas mean nothing; ``(BODY)*N`` repeats a body without ``)``, then ``x*N`` one character; ``|`` ends a stage.

    Raises
    ------
    LayoutSyntaxError
        Where a character is no letter of a layout, once all is multiplied out, or where there would be too many.
    """
    if len(text) > MAX_TEXT:
        raise LayoutSyntaxError("length", f"a layout of {len(text)} characters, expected at most {MAX_TEXT}")
    expanded = text.replace(",", "")
    for pattern in (r"\(([^)]+)\)\*(\d+)", r"(.)\*(\d+)"):
        expanded = _multiplied(pattern, expanded)
    for character in expanded:
        if character != "|" and character not in LETTERS:
            raise _strange(character)
    return tuple(expanded.split("|"))


def _multiplied(pattern: str, text: str) -> str:
    parts, at, length = [], 0, 0
    for match in re.finditer(pattern, text):
        count = int(match[2][:9])
        length += len(match[1]) * count
        if length > MAX_LETTERS or len(match[2]) > 9:
            raise LayoutSyntaxError("length", f"it would have more than {MAX_LETTERS} letters")
        parts += [text[at : match.start()], match[1] * count]
        at = match.end()
    return "".join([*parts, text[at:]])


def _strange(character: str) -> LayoutSyntaxError:
    if character in "()":
        why = "a group is (BODY)*N, with N, not empty, and no group within another"
        return LayoutSyntaxError("group", f"{show(character)} is left over: {why}")
    if character == "*" or character.isdigit():
        return LayoutSyntaxError("group", f"{show(character)} is left over: a multiplication is x*N or (BODY)*N")
    hint = "letters are case-sensitive" if character.swapcase() in LETTERS else "nothing but commas is passed over"
    return LayoutSyntaxError("letter", f"{show(character)} is none of the letters {', '.join(LETTERS)} and |: {hint}")


def layout_problems(
    stages: Sequence[str], num_ranks: int, num_layers: int | None, mtp_layers: int = 0
) -> Iterator[Problem]:
    """Yield what is wrong with the stages of a layout.

    Parameters
    ----------
    stages
        The letters of each stage.
    num_ranks
        Pipeline ranks; stage i is on rank i mod P.
    num_layers, mtp_layers
        Decoder layers (None: not asked) and MTP depths of the model.
    """
    flat = "".join(stages)
    if len(stages) % num_ranks:
        yield Problem("stages", f"{len(stages)} stages are not the same number on each of {num_ranks} ranks")
    if flat[:1] != "E":
        yield Problem("embedding-first", f"the first letter must be E, found {show(flat[:1])}")
    if flat[-1:] != "L":
        yield Problem("loss-last", f"the last letter must be L, found {show(flat[-1:])}")
    for letter, expected in (("E", 1), ("L", 1), ("t", num_layers), ("m", mtp_layers)):
        found = flat.count(letter)
        if expected is not None and found != expected:
            yield Problem(_COUNTED[letter], f"{found} of {letter}, expected {expected}: {LETTERS[letter]}")
    if "m" in flat and "t" in flat[flat.index("m") :]:
        yield Problem("mtp-order", "a decoder layer t after an MTP layer m")
    yield from _mtp_places(stages, num_ranks)
    if "E" in flat and "E" not in stages[0]:
        yield Problem("embedding-stage", "E is not in stage 0, where Megatron builds the embedding all the same", False)
    if "L" in flat and "L" not in stages[-1]:
        yield Problem("loss-stage", "L is not in the last stage, where Megatron builds the loss all the same", False)


_COUNTED: Final = {"E": "one-embedding", "L": "one-loss", "t": "layers", "m": "mtp-layers"}


def _mtp_places(stages: Sequence[str], num_ranks: int) -> Iterator[Problem]:
    holders = [number for number, letters in enumerate(stages) if "m" in letters]
    if len(holders) > 1:
        yield Problem("mtp-together", f"MTP layers in stages {', '.join(map(str, holders))}, expected one stage")
    early = [number for number in holders if number < len(stages) - num_ranks]
    if early:
        yield Problem("mtp-chunk", f"MTP layers in stage {early[0]}, which is not the last of its rank")
    elif num_ranks > 1 and any(number % num_ranks == 0 for number in holders):
        yield Problem("mtp-rank", "MTP layers on rank 0, which Megatron rules out and fails to refuse", False)


def write_layout(stages: Sequence[str]) -> str:
    """Return stages, letters each, as a layout string that `read_layout` reads back.

    Letters that repeat are written ``t*3``, equal stages ``(t*3|)*5``, the first and the last stage apart.
    """
    if len(stages) == 1:
        return _stage_text(stages[0])
    text = _stage_text(stages[0]) + "|"
    for letters, alike in groupby(stages[1:-1]):
        count = len(list(alike))
        stage = _stage_text(letters) + "|"
        text += f"({stage})*{count}" if count > 1 else stage
    return text + _stage_text(stages[-1])


def _stage_text(letters: str) -> str:
    runs = ((letter, len(list(alike))) for letter, alike in groupby(letters))
    return "".join(f"{letter}*{count}" if count > 1 else letter for letter, count in runs)
