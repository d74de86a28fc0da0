"""What differs in the profiles that two plans were made from."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import msgspec

from octopipe_cli.diff import figures
from octopipe_cli.diff.change import Change
from octopipe_cli.diff.thresholds import Thresholds, growth
from octopipe_cli.formats import child_path, show
from octopipe_cli.profile import Kind, Profile, Times
from octopipe_cli.words import kinds_text

_SIZES: Final = (*(field for field in Kind.__struct_fields__ if field.endswith("_bytes")), "parameters")


def compare_profiles(old: Profile, new: Profile, thresholds: Thresholds) -> Iterator[Change]:
    """Yield what differs, kind by kind, then layers, rules and training; paths are the new profile's."""
    for name in dict.fromkeys((*old.kinds, *new.kinds)):
        path = child_path("profile: $.kinds", name)
        a, b = old.kinds.get(name), new.kinds.get(name)
        if a is not None and b is not None:
            yield from _kind(name, path, a, b, thresholds)
        else:
            gone = b is None
            message = f"the kind {name} is {'gone from' if gone else 'new in'} the profile"
            yield thresholds.change("kind-removed" if gone else "kind-added", path, message)
    if old.layer_kinds != new.layer_kinds:
        counts = old.num_layers, new.num_layers
        more = f"{counts[1]} layers instead of {counts[0]}" if counts[0] != counts[1] else "other layers"
        message = f"the profile lists {more}"
        details = [f"{label}: {kinds_text(x.layer_kinds)}" for label, x in (("before", old), ("now", new))]
        yield thresholds.change("profile-layers-changed", "profile: $.layers", message, *counts, details=details)
    for key, what in (("rules", "the rules for layers"), ("training", "the training run")):
        was, now = msgspec.structs.asdict(getattr(old, key)), msgspec.structs.asdict(getattr(new, key))
        lines = [
            f"{field}: {show(now[field])} instead of {show(was[field])}" for field in now if was[field] != now[field]
        ]
        if lines:
            name = f"profile-{key}-changed"
            yield thresholds.change(
                name, f"profile: $.{key}", f"{what} of the profile changed: {', '.join(lines)}", was, now
            )


def _kind(name: str, path: str, a: Kind, b: Kind, thresholds: Thresholds) -> Iterator[Change]:
    for hardware in dict.fromkeys((*a.times, *b.times)):
        place = child_path(f"{path}.times", hardware)
        was, now = a.times.get(hardware), b.times.get(hardware)
        if was is not None and now is not None:
            if was != now:
                yield _times(name, hardware, place, was, now, thresholds)
        else:
            gone = now is None
            message = f"the kind {name} has {'no times any more' if gone else 'times'} on {hardware}"
            yield thresholds.change("hardware-removed" if gone else "hardware-added", place, message)
    lines = [
        f"{key} {figures.sizes(getattr(a, key), getattr(b, key))}"
        if key != "parameters"
        else f"parameters {a.parameters} to {b.parameters}"
        for key in _SIZES
        if getattr(a, key) != getattr(b, key)
    ]
    if lines:
        yield thresholds.change("kind-sizes-changed", path, f"the kind {name} has other sizes: {', '.join(lines)}")
    others = [field for field in Kind.__struct_fields__ if field not in (*_SIZES, "times")]
    lines = [
        f"{field} {show(getattr(b, field))} instead of {show(getattr(a, field))}"
        for field in others
        if getattr(a, field) != getattr(b, field)
    ]
    if lines:
        yield thresholds.change("kind-traits-changed", path, f"the kind {name}: {', '.join(lines)}")


def _work(times: Times) -> Fraction:
    """Return what a layer takes of a step in ms: forward and backward, in one piece where that was measured."""
    whole = times.backward_ms
    backward = (
        Fraction(times.backward_input_ms) + Fraction(times.backward_weight_ms) if whole is None else Fraction(whole)
    )
    return Fraction(times.forward_ms) + backward


def _times(name: str, hardware: str, path: str, a: Times, b: Times, thresholds: Thresholds) -> Change:
    was, now = _work(a), _work(b)
    lines = []
    for field in Times.__struct_fields__:
        before, after = getattr(a, field), getattr(b, field)
        if before != after:
            texts = ["none" if value is None else f"{value:g} ms" for value in (before, after)]
            if before and after is not None:
                texts.append(f"({figures.change_in_percent(before, after)})")
            lines.append(f"{field.removesuffix('_ms')} {texts[0]} to {' '.join(texts[1:])}")
    if was == now:
        message = f"the kind {name} takes as long as before on {hardware}, its passes do not"
        return thresholds.change("kind-times-shifted", path, message, details=lines)
    slower = now > was
    message = f"a layer of kind {name} takes {float(now):.4g} ms on {hardware} instead of {float(was):.4g} ms"
    if was:
        message += f" ({figures.change_in_percent(float(was), float(now))})"
    return thresholds.change(
        "kind-slower" if slower else "kind-faster",
        path,
        message,
        float(was),
        float(now),
        amount=growth(float(was), float(now)),
        details=lines,
    )
