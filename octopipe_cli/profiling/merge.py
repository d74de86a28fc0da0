"""Profiles of one model on several hardwares, merged into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from octopipe_cli import __version__
from octopipe_cli.errors import InputError
from octopipe_cli.formats import Document, Loaded, one_of, path_of
from octopipe_cli.formats import show as quoted
from octopipe_cli.profile import Profile, profile_document

#: What belongs to a kind whatever it runs on.
SAME: Final = (
    "parameters",
    "state_bytes",
    "activation_bytes",
    "weight_activation_bytes",
    "output_bytes",
    "workspace_bytes",
    "splittable",
    "role",
    "modality",
    "quadratic_share",
)
#: Sizes that kernels decide with: they may differ between hardwares.
KERNELS: Final = ("activation_bytes", "weight_activation_bytes", "workspace_bytes")


def merge(profiles: Sequence[Loaded[Profile]], name: str | None = None, take_larger: bool = False) -> Document:
    """Return one profile with the hardware columns of several, in their order.

    Parameters
    ----------
    profiles
        Two or more, of the same model in the same training: equal kinds, layers, rules and sizes.
    name
        Of the merged profile; by default the first one's.
    take_larger
        Whether sizes that depend on kernels (activations, workspace) may differ: the largest one counts then.

    Raises
    ------
    InputError
        With file, JSON path and both values, where they differ, or where two have one hardware.
    """
    first = profiles[0]
    for other in profiles[1:]:
        _check_same(first, other, take_larger)
    _check_columns(profiles)
    document = profile_document(first.value)
    document["name"] = first.value.name if name is None else name
    document["provenance"] = {
        "method": "merged",
        "tool": f"octopipe {__version__}",
        "sources": [
            {"name": part.value.name, "digest": part.digest, "hardware": list(part.value.hardware)}
            | ({"provenance": part.value.provenance} if part.value.provenance else {})
            for part in profiles
        ],
    }
    for kind, fields in document["kinds"].items():
        parts = [part.value.kinds[kind] for part in profiles]
        for key in KERNELS if take_larger else ():
            if largest := max(getattr(part, key) for part in parts):
                fields[key] = largest
        fields["times"] = {
            hardware: msgspec.to_builtins(times) for part in parts for hardware, times in part.times.items()
        }
    return document


def _check_same(first: Loaded[Profile], other: Loaded[Profile], take_larger: bool) -> None:
    for name in (*first.value.kinds, *other.value.kinds):
        for having, lacking in ((first, other), (other, first)):
            if name in having.value.kinds and name not in lacking.value.kinds:
                raise InputError(
                    f"no kind {quoted(name)}, which {having.file} has",
                    file=lacking.file,
                    path="$.kinds",
                    found=one_of(lacking.value.kinds),
                    remedy="merge profiles of the same model, made in the same way",
                )
    for name, kind in first.value.kinds.items():
        again = other.value.kinds[name]
        for key in SAME:
            if take_larger and key in KERNELS:
                continue
            _same((key, getattr(kind, key), getattr(again, key)), first.file, other.file, ("kinds", name, key))
    _check_layers(first, other)
    for part in ("training", "rules"):
        values = [msgspec.to_builtins(getattr(side.value, part)) for side in (first, other)]
        _same((part, *values), first.file, other.file, (part,))


def _same(what: tuple[str, Any, Any], first: str, other: str, place: tuple[str, ...]) -> None:
    key, left, right = what
    if left == right:
        return
    if isinstance(left, Mapping):  # name the key that differs, not the whole object
        for inner in (*left, *right):
            _same((inner, left.get(inner), right.get(inner)), first, other, (*place, inner))
    remedy = "merge profiles of the same model and the same training"
    if key in KERNELS:
        remedy += "; with --take-larger the larger size counts where kernels differ"
    raise InputError(
        f"{key} is not what {first} has",
        file=other,
        path=path_of(place),
        found=quoted(right),
        expected=quoted(left),
        remedy=remedy,
    )


def _check_layers(first: Loaded[Profile], other: Loaded[Profile]) -> None:
    left, right = first.value.layer_kinds, other.value.layer_kinds
    remedy = "merge profiles of the same model"
    for layer, (wanted, found) in enumerate(zip(left, right, strict=False)):
        if wanted != found:
            raise InputError(
                f"layer {layer} is of another kind than in {first.file}",
                file=other.file,
                path="$.layers",
                found=quoted(found),
                expected=quoted(wanted),
                remedy=remedy,
            )
    if len(left) != len(right):
        raise InputError(
            f"not as many layers as in {first.file}",
            file=other.file,
            path="$.layers",
            found=str(len(right)),
            expected=str(len(left)),
            remedy=remedy,
        )


def _check_columns(profiles: Sequence[Loaded[Profile]]) -> None:
    """Raise InputError where a kind has two columns of one name."""
    for kind in profiles[0].value.kinds:
        seen: dict[str, str] = {}
        for part in profiles:
            for hardware in part.value.kinds[kind].times:
                if hardware in seen:
                    raise InputError(
                        f"{seen[hardware]} has times for {quoted(hardware)} already",
                        file=part.file,
                        path=path_of(["kinds", kind, "times", hardware]),
                        remedy="each hardware once: leave one of the two out, or rename its column",
                    )
                seen[hardware] = part.file
