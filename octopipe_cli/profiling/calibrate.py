"""A profile's times scaled to measured ones, and what remains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

from octopipe_cli import __version__
from octopipe_cli.conversion import convert
from octopipe_cli.errors import InputError
from octopipe_cli.formats import (
    Document,
    Loaded,
    Record,
    did_you_mean,
    digest,
    one_of,
    parse_json,
    path_of,
    read_text,
    shown_file,
)
from octopipe_cli.formats import show as quoted
from octopipe_cli.profile import SCHEMA, Milliseconds, Name, Profile, Times, profile_document

Scale = Literal["kind", "pass"]
PASSES: Final = ("forward_ms", "backward_input_ms", "backward_weight_ms")
#: Times longer than profiles hold.
MAX_MS: Final = 1e8


class MeasuredTimes(Record, frozen=True, kw_only=True):
    """Measured times of one layer of a kind and one micro-batch, in milliseconds, as far as they are known."""

    forward_ms: Milliseconds | None = None
    backward_input_ms: Milliseconds | None = None
    backward_weight_ms: Milliseconds | None = None
    backward_ms: Milliseconds | None = None


Measured = Annotated[dict[Name, MeasuredTimes], msgspec.Meta(min_length=1)]


class Row(NamedTuple):
    """One time of a kind: before, measured, after scaling."""

    kind: str
    layers: int
    time: str
    before_ms: float
    measured_ms: float
    after_ms: float


class Calibrated(NamedTuple):
    """The scaled profile, factors by kind and time, every measured time with its residual, kinds without any.

    `residual` is the root of the mean squared (after - measured) / measured, each time weighted by what it costs the
    model; `before` the same with the times as they were.
    """

    document: Document
    factors: dict[str, dict[str, float]]
    rows: list[Row]
    unmeasured: list[str]
    before: float
    residual: float


def load_measured(file: str, hardware: str | None = None) -> tuple[dict[str, MeasuredTimes], str]:
    """Return measured times by kind, and the digest of their document.

    Parameters
    ----------
    file
        A profile, or an object of kind -> times: ``{"mamba": {"forward_ms": 1.5, "backward_ms": 3.1}}``.
    hardware
        Which column of a profile; may be None where it has one.
    """
    source = parse_json(read_text(file), file)
    if isinstance(source, dict) and source.get("schema") == SCHEMA:
        from octopipe_cli.formats import check_envelope
        from octopipe_cli.profile import profile_from_document

        profile = profile_from_document(check_envelope(source, SCHEMA, file), shown_file(file))
        column = column_of(profile, hardware, shown_file(file), "--measured-hardware")
        used = set(profile.layer_kinds)
        found = {name: _measured(kind.times[column]) for name, kind in profile.kinds.items() if name in used}
        return found, digest(source)
    if hardware is not None:
        raise InputError("only a profile has columns of hardware", file=shown_file(file), remedy="leave the option out")
    if not isinstance(source, dict):
        raise InputError(
            "not an object",
            file=shown_file(file),
            path="$",
            found=quoted(source),
            expected='a profile, or kind -> times: {"mamba": {"forward_ms": 1.5}}',
        )
    times = convert(source, Measured, shown_file(file))
    for kind, measured in times.items():
        if not msgspec.to_builtins(measured):
            keys = ", ".join(MeasuredTimes.__struct_fields__)
            raise InputError("no time", file=shown_file(file), path=path_of([kind]), expected=f"at least one of {keys}")
    return times, digest(source)


def _measured(times: Times) -> MeasuredTimes:
    return MeasuredTimes(
        forward_ms=times.forward_ms,
        backward_input_ms=times.backward_input_ms,
        backward_weight_ms=times.backward_weight_ms,
        backward_ms=times.backward_ms,
    )


def column_of(profile: Profile, hardware: str | None, file: str, option: str) -> str:
    """Return the hardware whose column counts; raises InputError where there is none, or several to choose from."""
    if hardware is None:
        if len(profile.hardware) == 1:
            return profile.hardware[0]
        raise InputError(
            "several columns of hardware" if profile.hardware else "no hardware that every kind has times for",
            file=file,
            path="$.kinds",
            expected=one_of(profile.hardware) if profile.hardware else None,
            remedy=f"say which with {option}",
        )
    if hardware not in profile.hardware:
        raise InputError(
            f"no times for {quoted(hardware)}",
            file=file,
            path="$.kinds",
            expected=one_of(profile.hardware),
            remedy=did_you_mean(hardware, profile.hardware, f"correct {option}"),
        )
    return hardware


def calibrate(
    profile: Loaded[Profile],
    measured: tuple[Mapping[str, MeasuredTimes], str],
    measured_file: str,
    hardware: str | None = None,
    scale: Scale = "kind",
) -> Calibrated:
    """Return a profile with one hardware's times scaled to measured ones.

    Parameters
    ----------
    profile
        What is scaled; sizes, ``step_ms`` and other columns stay.
    measured, measured_file
        What `load_measured` gave, and the file's name for errors.
    hardware
        The column that is scaled; may be None where there is one.
    scale
        ``kind``: one factor a kind, least squares over its measured times, so that the profile's proportions of F, I
        and W stay. ``pass``: F, I and W scaled apart, so that every measured time is met; a measured B scales I and W
        together.

    Notes
    -----
    Kinds without a measurement take the factor that fits all measured kinds of the model together.
    """
    times, source_digest = measured
    model = profile.value
    column = column_of(model, hardware, profile.file, "--hardware")
    for name in times:
        if name not in model.kinds:
            raise InputError(
                f"no kind {quoted(name)} in {profile.file}",
                file=shown_file(measured_file),
                path=path_of([name]),
                expected=one_of(model.kinds),
                remedy=did_you_mean(name, model.kinds, "name the kinds as the profile does"),
            )
    counts = {name: model.layer_kinds.count(name) for name in model.kinds}
    common = _factor(
        (counts[name] * before, counts[name] * wanted)
        for name, wants in times.items()
        for _, before, wanted in _pairs(model.kinds[name].times[column], wants)
    )
    document = profile_document(model)
    factors: dict[str, dict[str, float]] = {}
    rows: list[Row] = []
    for name, kind in model.kinds.items():
        old = kind.times[column]
        new, factors[name] = _scaled(old, times.get(name), scale, common)
        _check_range(new, name, measured_file)
        document["kinds"][name]["times"][column] = msgspec.to_builtins(new)
        rows += _rows(name, counts[name], old, new, times.get(name))
    unmeasured = [name for name in model.kinds if name not in times]
    before, residual = (_residual(rows, which) for which in ("before_ms", "after_ms"))
    document["provenance"] = {
        **model.provenance,
        "calibration": {
            "measured_digest": source_digest,
            "profile_digest": profile.digest,
            "hardware": column,
            "scale": scale,
            "factors": factors,
            "unmeasured_kinds": unmeasured,
            "residual_before": round(before, 6),
            "residual": round(residual, 6),
            "tool": f"octopipe {__version__}",
        },
    }
    return Calibrated(document, factors, rows, unmeasured, before, residual)


def _pairs(old: Times, measured: MeasuredTimes) -> list[tuple[str, float, float]]:
    """Return (time, what the profile has, what was measured) for every measured time."""
    pairs = []
    for name in PASSES:
        wanted = getattr(measured, name)
        if wanted is not None:
            pairs.append((name, getattr(old, name), wanted))
    if measured.backward_ms is not None:
        pairs.append(("backward_ms", whole_backward(old), measured.backward_ms))
    return pairs


def whole_backward(times: Times) -> float:
    """Return B: its own time, or I + W."""
    if times.backward_ms is not None:
        return times.backward_ms
    return times.backward_input_ms + times.backward_weight_ms


def _factor(pairs: Iterable[tuple[float, float]]) -> float:
    """Return the factor by which the first ones come nearest to the second ones, in the sum of squares."""
    known = list(pairs)
    squares = sum(before * before for before, _ in known)
    return sum(before * wanted for before, wanted in known) / squares if squares > 0 else 1.0


def _scaled(old: Times, measured: MeasuredTimes | None, scale: Scale, common: float) -> tuple[Times, dict[str, float]]:
    """Return a kind's times scaled, and its factors by time."""
    if measured is None or scale == "kind":
        pairs = [] if measured is None else _pairs(old, measured)
        factor = _factor((before, wanted) for _, before, wanted in pairs) if pairs else common
        names = [*PASSES, *(["backward_ms"] if old.backward_ms is not None else [])]
        new = {name: _rounded(factor * getattr(old, name)) for name in names}
        return msgspec.structs.replace(old, **new), {"all": round(factor, 6)}
    return _scaled_apart(old, measured, common)


def _scaled_apart(old: Times, measured: MeasuredTimes, common: float) -> tuple[Times, dict[str, float]]:
    halves = (measured.backward_input_ms, measured.backward_weight_ms)
    backward = measured.backward_ms
    known = dict(zip(PASSES, (measured.forward_ms, *halves), strict=True))
    fitted = _factor((before, wanted) for _, before, wanted in _pairs(old, measured))
    if backward is not None and halves == (None, None):
        split = _factor([(old.backward_input_ms + old.backward_weight_ms, backward)])
    else:
        split = fitted
    new: dict[str, float] = {}
    for name in PASSES:
        wanted = known[name]
        factor = split if name != "forward_ms" else fitted
        new[name] = _rounded(factor * getattr(old, name)) if wanted is None else wanted
    if backward is not None and (old.backward_ms is not None or None not in halves):
        new["backward_ms"] = backward
    elif old.backward_ms is not None:
        new["backward_ms"] = _rounded(split * old.backward_ms)
    before = {name: whole_backward(old) if name == "backward_ms" else getattr(old, name) for name in new}
    factors = {name: round(value / before[name], 6) for name, value in new.items() if before[name] > 0}
    return msgspec.structs.replace(old, **new), factors


def _rounded(milliseconds: float) -> float:
    return round(milliseconds, 6)


def _check_range(times: Times, kind: str, file: str) -> None:
    values = [getattr(times, name) for name in PASSES] + [whole_backward(times)]
    if max(values) > MAX_MS:
        raise InputError(
            f"the scaled times of {quoted(kind)} are longer than a profile holds",
            file=shown_file(file),
            found=f"{max(values):.3g} ms",
            expected=f"at most {MAX_MS:g} ms",
            remedy="check the units: times are in milliseconds",
        )


def _rows(kind: str, layers: int, old: Times, new: Times, measured: MeasuredTimes | None) -> list[Row]:
    if measured is None:
        return []
    after = {name: getattr(new, name) for name in PASSES} | {"backward_ms": whole_backward(new)}
    return [Row(kind, layers, name, before, wanted, after[name]) for name, before, wanted in _pairs(old, measured)]


def _residual(rows: Iterable[Row], which: str) -> float:
    """Return the root of the mean squared relative error, weighted by what each measured time costs the model."""
    known = [row for row in rows if row.measured_ms > 0 and row.layers > 0]
    weight = sum(row.layers * row.measured_ms for row in known)
    if weight <= 0:
        return 0.0
    errors: list[Any] = [
        (getattr(row, which) / row.measured_ms - 1) ** 2 * row.layers * row.measured_ms for row in known
    ]
    return float((sum(errors) / weight) ** 0.5)
