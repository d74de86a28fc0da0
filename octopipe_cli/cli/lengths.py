"""Files of lengths of micro-batches: JSON as in a request, JSON lines (one a step), or CSV with a column a modality."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec

from octopipe_cli.cli.inputs import check_inputs
from octopipe_cli.cluster import Cluster
from octopipe_cli.conversion import convert
from octopipe_cli.errors import InputError
from octopipe_cli.formats import Loaded, did_you_mean, digest, one_of, parse_json, path_of, read_text, show, shown_file
from octopipe_cli.plan import Length, Robust
from octopipe_cli.profile import Name, Profile

Tokens = Annotated[float, msgspec.Meta(ge=0, le=1e15)]
LengthSet = dict[str, list[float]]
TOKEN_LISTS: Any = dict[Name, list[Tokens]]
LENGTH_LISTS: Any = dict[Name, list[Length]]
#: How many sets are read at the most.
MOST_SETS: Final = 10_000


@dataclass(frozen=True)
class LengthSets:
    """Sets of lengths, one a step: by modality, one number a micro-batch.

    Attributes
    ----------
    sets
        The sets, in the file's order.
    digest
        Of what was read, whatever its format.
    file
        The file, as errors name it.
    """

    sets: list[LengthSet]
    digest: str
    file: str


def read_lengths(name: str, profile: Loaded[Profile], num_microbatches: int, *, tokens: bool) -> LengthSets:
    """Return the sets of lengths in a file.

    Parameters
    ----------
    tokens
        Whether the file holds counts of tokens, to be divided by those of a micro-batch of the profile.

    Raises
    ------
    InputError
        Where the file is none of lengths, has others than the profile's modalities, or not one a micro-batch.
    """
    text, file = read_text(name), shown_file(name)
    unit = _tokens_a_microbatch(profile) if tokens else 1.0
    found = _from_csv(text, file, num_microbatches) if _is_csv(name, text) else _from_json(text, file)
    if not found:
        raise InputError("no lengths in the file", file=file, expected="lists of numbers by modality")
    if len(found) > MOST_SETS:
        raise InputError("too many sets of lengths", file=file, found=str(len(found)), expected=f"at most {MOST_SETS}")
    sets = []
    for place, document in found:
        made: LengthSet = convert(document, TOKEN_LISTS if tokens else LENGTH_LISTS, place)
        _check(made, profile.value, num_microbatches, place)
        sets.append({modality: [length / unit for length in made[modality]] for modality in sorted(made)})
    return LengthSets(sets, digest({"lengths": sets}), file)


def _is_csv(name: str, text: str) -> bool:
    return name.lower().endswith(".csv") or text.lstrip()[:1] not in ("{", "[")


def _from_json(text: str, file: str) -> list[tuple[str, Any]]:
    """Return (place, document) of each set: of one document, of a list of them, or of a document a line."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    try:
        found = [(f"{file}:{number}", parse_json(line, f"{file}:{number}")) for number, line in lines]
    except InputError:
        found = [(file, parse_json(text, file))]
    if len(found) == 1 and isinstance(found[0][1], list):
        found = [(f"{file}[{number}]", item) for number, item in enumerate(found[0][1])]
    found = [(file, document) for _, document in found] if len(found) == 1 else found
    for place, document in found:
        if not isinstance(document, dict):
            raise InputError(
                "not lengths of micro-batches", file=place, found=show(document)[:60], expected="lists by modality"
            )
    return found


def _from_csv(text: str, file: str, num_microbatches: int) -> list[tuple[str, Any]]:
    """Return (place, document) of each set: a row a micro-batch, one step's rows after another's."""
    rows = [row for row in csv.reader(io.StringIO(text)) if any(cell.strip() for cell in row)]
    if not rows:
        return []
    names = [cell.strip() for cell in rows[0]]
    if len(set(names)) < len(names):
        raise InputError("a column stands twice", file=file, path="row 1", found=", ".join(map(show, names)))
    values = [_numbers(row, len(names), file, number) for number, row in enumerate(rows[1:], 2)]
    if not values or len(values) % num_microbatches:
        raise InputError(
            "not a row for every micro-batch",
            file=file,
            found=f"{len(values)} rows",
            expected=f"{num_microbatches} below the names of the modalities, or that many for each of several steps",
        )
    steps = [values[at : at + num_microbatches] for at in range(0, len(values), num_microbatches)]
    return [
        (file, {name: list(column) for name, column in zip(names, zip(*step, strict=True), strict=True)})
        for step in steps
    ]


def _numbers(row: list[str], count: int, file: str, number: int) -> list[float]:
    try:
        found = [float(cell) for cell in row]
    except ValueError:
        found = []
    if len(found) != count or not all(map(math.isfinite, found)):
        raise InputError(
            "not a number for every column",
            file=file,
            path=f"row {number}",
            found=show(",".join(row))[:60],
            expected=f"{count} numbers",
        )
    return found


def _check(lengths: LengthSet, profile: Profile, num_microbatches: int, place: str) -> None:
    known = sorted({kind.modality for kind in profile.kinds.values()})
    if not lengths:
        raise InputError("no modality in the lengths", file=place, path="$", expected=one_of(known))
    for name, values in lengths.items():
        path = path_of([name])
        if name not in known:
            raise InputError(
                f"no layer of the profile is of modality {show(name)}",
                file=place,
                path=path,
                expected=one_of(known),
                remedy=did_you_mean(name, known, "correct the name, or give kinds of the profile that modality"),
            )
        if len(values) != num_microbatches:
            raise InputError(
                "not as many lengths as micro-batches",
                file=place,
                path=path,
                found=str(len(values)),
                expected=str(num_microbatches),
                remedy=f"give -m {len(values)}, or another file",
            )


def _tokens_a_microbatch(profile: Loaded[Profile]) -> float:
    training = profile.value.training
    if training.sequence_length is None or training.micro_batch_size is None:
        raise InputError(
            "--tokens asks how many tokens a micro-batch of the profile has, which it does not say",
            file=profile.file,
            path="$.training",
            expected="sequence_length and micro_batch_size",
            remedy="add them, or give lengths relative to the profile's without --tokens",
        )
    return float(training.sequence_length * training.micro_batch_size)


def asked_lengths(
    file: str | None, inputs: tuple[Loaded[Profile], Loaded[Cluster], int], *, tokens: bool
) -> LengthSets | None:
    """Return the lengths that an option names, None where it is not given.

    Parameters
    ----------
    inputs
        Profile, cluster and number of micro-batches.
    """
    if file is None:
        if tokens:
            raise InputError("--tokens is for micro-batches that differ", remedy="give their lengths: --lengths")
        return None
    profile, cluster, num_microbatches = inputs
    found = read_lengths(file, profile, num_microbatches, tokens=tokens)
    longest = max(length for lengths in found.sets for values in lengths.values() for length in values)
    check_inputs(profile, cluster, num_microbatches, max(1.0, longest, longest * longest))
    return found


def planned_lengths(
    file: str | None,
    inputs: tuple[Loaded[Profile], Loaded[Cluster], int],
    *,
    tokens: bool,
    robust: Robust | None,
    keep: bool,
) -> LengthSets | None:
    """Return the lengths that a plan is asked for, checked against the other options; None where there are none.

    `keep`: whether micro-batches keep their order.
    """
    found = asked_lengths(file, inputs, tokens=tokens)
    if found is None:
        for given, option in ((robust, "--robust"), (keep, "--keep-order")):
            if given:
                raise InputError(f"{option} is for micro-batches that differ", remedy="give their lengths: --lengths")
        return None
    if robust is None and len(found.sets) > 1:
        raise InputError(
            "lengths of several steps, and one plan",
            file=found.file,
            found=f"{len(found.sets)} sets of lengths",
            remedy="say what is to be least over them: --robust mean, p95 or worst; or give one step's",
        )
    if robust is not None and keep:
        raise InputError("--keep-order means nothing with --robust: the micro-batches keep their order in every step")
    if robust is not None and len(found.sets) < 2:
        raise InputError(
            "--robust takes lengths of several steps: the even-numbered for finding, the odd for reporting",
            file=found.file,
            found="1 set of lengths",
            expected="2 or more",
        )
    return found
