"""The model profile: what each layer costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, Final, Literal, NamedTuple, cast

import msgspec

from octopipe_cli.conversion import convert
from octopipe_cli.errors import InputError
from octopipe_cli.formats import Document, Loaded, Record, did_you_mean, digest, one_of, read_document, show, shown_file

SCHEMA: Final = "octopipe.profile"
MAX_LAYERS: Final = 10_000

#: How estimated profiles call F, I and W.
PASSES: Final = ("forward", "input", "weight")

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Milliseconds = Annotated[float, msgspec.Meta(ge=0, le=1e8)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**50)]
Count = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
Degree = Annotated[int, msgspec.Meta(ge=1, le=10**6)]
Index = Annotated[int, msgspec.Meta(ge=0, le=MAX_LAYERS)]
Role = Literal["embedding", "decoder", "mtp", "head"]


class Times(Record, frozen=True, kw_only=True):
    """Times of one kind on one hardware, in milliseconds; B (`backward_ms`) only where it was measured in one piece."""

    forward_ms: Milliseconds
    backward_input_ms: Milliseconds
    backward_weight_ms: Milliseconds
    backward_ms: Milliseconds | None = None
    step_ms: Milliseconds = 0.0


class Kind(Record, frozen=True, kw_only=True):
    """A kind of layer: its times by hardware, its sizes (state per layer, other bytes per layer and micro-batch).

    `modality` says which lengths of micro-batches count for it, `quadratic_share` which part of its time grows with
    their square.
    """

    times: Annotated[dict[Name, Times], msgspec.Meta(min_length=1)]
    parameters: Count = 0
    state_bytes: Bytes = 0
    activation_bytes: Bytes = 0
    weight_activation_bytes: Bytes = 0
    output_bytes: Bytes = 0
    workspace_bytes: Bytes = 0
    splittable: bool = True
    role: Role = "decoder"
    modality: Name = "text"
    quadratic_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0


Repeat = Annotated[int, msgspec.Meta(ge=1, le=MAX_LAYERS)]


class InnerGroup(Record, frozen=True, kw_only=True):
    """Layers that repeat, inside a group."""

    repeat: Repeat
    of: Annotated[list[Name], msgspec.Meta(min_length=1)]


class Group(Record, frozen=True, kw_only=True):
    """Layers that repeat; groups nest once."""

    repeat: Repeat
    of: Annotated[list[Name | InnerGroup], msgspec.Meta(min_length=1)]


LayerItem = str | Group | InnerGroup


class Rules(Record, frozen=True, kw_only=True):
    """Layer indices (of the expanded list) that must share a rank, share weights, or may not be cut apart."""

    same_rank: list[Annotated[list[Index], msgspec.Meta(min_length=1)]] = []
    tied: list[Annotated[list[Index], msgspec.Meta(min_length=1)]] = []
    no_cut_after: list[Index] = []


class Training(Record, frozen=True, kw_only=True):
    """The training run the times belong to."""

    sequence_length: Degree | None = None
    micro_batch_size: Degree | None = None
    dtype: str | None = None
    tensor_parallel: Degree = 1
    context_parallel: Degree = 1
    expert_parallel: Degree = 1
    data_parallel: Degree = 1


class Profile(Record, frozen=True, kw_only=True, dict=True):
    """A model: its layer kinds, the layers in order, and the rules a plan must keep."""

    schema: Literal["octopipe.profile"]
    version: Literal[1]
    name: Name
    kinds: Annotated[dict[Name, Kind], msgspec.Meta(min_length=1)]
    layers: Annotated[list[Name | Group], msgspec.Meta(min_length=1)]
    rules: Rules = Rules()
    training: Training = Training()
    provenance: dict[str, Any] = {}

    @cached_property
    def layer_kinds(self) -> tuple[str, ...]:
        """The kind of every layer, groups expanded."""
        return tuple(expand(self.layers))

    @property
    def num_layers(self) -> int:
        """How many layers the model has."""
        return len(self.layer_kinds)

    def kind_of(self, layer: int) -> Kind:
        """Return the kind of a layer."""
        return self.kinds[self.layer_kinds[layer]]

    @property
    def hardware(self) -> tuple[str, ...]:
        """The hardware names every kind has times for, in the order of the first kind."""
        first, *others = self.kinds.values()
        return tuple(name for name in first.times if all(name in kind.times for kind in others))


class KindWork(msgspec.Struct, frozen=True, kw_only=True):
    """What a layer of an estimated kind does: weights a token meets, FLOPs of each pass, what bounds it."""

    active_parameters: Count
    flops: dict[str, Annotated[int, msgspec.Meta(ge=0)]]
    bound: dict[str, str] = {}
    #: What is left of the backward, where it is not whole.
    backward: str | None = None


def expand(items: Any) -> Iterator[str]:
    """Yield the kinds of a layer list, its groups written out."""
    for item in items:
        if isinstance(item, str):
            yield item
        else:
            for _ in range(item.repeat):
                yield from expand(item.of)


def compress(kinds: tuple[str, ...]) -> list[Any]:
    """Return layer kinds as a document's list, runs of a repeating pattern as groups (the shortest pattern first)."""
    out: list[Any] = []
    at = 0
    while at < len(kinds):
        best_saved, best = 0, (1, 1)
        for width in range(1, min(8, (len(kinds) - at) // 2) + 1):
            times = 1
            while kinds[at + times * width : at + (times + 1) * width] == kinds[at : at + width]:
                times += 1
            if times > 1 and (times - 1) * width > best_saved:
                best_saved, best = (times - 1) * width, (width, times)
        width, times = best
        if times > 1 and best_saved >= 2:
            out.append({"repeat": times, "of": list(kinds[at : at + width])})
            at += width * times
        else:
            out.append(kinds[at])
            at += 1
    return out


def profile_from_document(document: Document, file: str) -> Profile:
    """Return the profile of a document whose schema and version are checked.

    Raises
    ------
    InputError
        With file, path, what was found and expected, where a value, a reference or a rule is wrong.
    """
    profile = convert(document, Profile, file)
    _check_layers(document["layers"], "$.layers", profile.kinds, file)
    total = sum(_size(item) for item in profile.layers)
    if total > MAX_LAYERS:
        raise InputError(
            "too many layers", file=file, path="$.layers", found=str(total), expected=f"at most {MAX_LAYERS}"
        )
    _check_rules(profile, file)
    return profile


def _size(item: LayerItem) -> int:
    return 1 if isinstance(item, str) else item.repeat * sum(_size(child) for child in item.of)


def _check_layers(items: list[Any], path: str, kinds: Mapping[str, Kind], file: str) -> None:
    for index, item in enumerate(items):
        if isinstance(item, dict):
            _check_layers(item["of"], f"{path}[{index}].of", kinds, file)
        elif item not in kinds:
            raise InputError(
                f"no kind {show(item)}",
                file=file,
                path=f"{path}[{index}]",
                expected=one_of(kinds),
                remedy=did_you_mean(item, kinds, "add the kind to $.kinds, or correct the name"),
            )


def _check_rules(profile: Profile, file: str) -> None:
    last = profile.num_layers - 1
    groups = [("same_rank", profile.rules.same_rank), ("tied", profile.rules.tied)]
    places = [(f"$.rules.{name}[{g}]", group) for name, lists in groups for g, group in enumerate(lists)]
    for path, indices in [*places, ("$.rules.no_cut_after", profile.rules.no_cut_after)]:
        for at, layer in enumerate(indices):
            if layer > last:
                raise InputError(
                    "no such layer", file=file, path=f"{path}[{at}]", found=str(layer), expected=f"0 to {last}"
                )
            if layer in indices[:at]:
                raise InputError(
                    f"layer {layer} stands twice in one group", file=file, path=f"{path}[{at}]", remedy="name it once"
                )
    tied_before: set[int] = set()
    for g, group in enumerate(profile.rules.tied):
        if again := tied_before & set(group):
            raise InputError(
                f"layer {min(again)} is in two groups of tied layers",
                file=file,
                path=f"$.rules.tied[{g}]",
                remedy="put all layers that share weights into one group",
            )
        tied_before |= set(group)


def estimated_work(profile: Profile) -> dict[str, KindWork]:
    """Return what an estimated profile's provenance says of each kind; empty where it does not of all of them."""
    return _work_of(profile, profile.provenance)


def _work_of(profile: Profile, provenance: Mapping[str, Any]) -> dict[str, KindWork]:
    try:
        found = msgspec.convert(provenance.get("kinds"), dict[str, KindWork])
    except msgspec.ValidationError:
        return {}
    complete = all(name in found and set(PASSES) <= set(found[name].flops) for name in profile.kinds)
    return found if complete else {}


class ModelWork(NamedTuple):
    """What a micro-batch costs one replica in model FLOPs, and what its devices could do, by hardware (TFLOP/s)."""

    flops: int
    peak_tflops: dict[str, float]


def model_work(profile: Profile) -> ModelWork | None:
    """Return a profile's model FLOPs and peak rates; None where its provenance does not tell both.

    Model FLOPs are three times the forward's: a backward has two products for each of the forward's, and what is
    computed again (recomputed activations, attention scores) does not count (PaLM, arXiv 2204.02311, appendix B; that
    counts all pairs of positions of causal attention, here those that are seen count). A merged profile tells what its
    first source does, and the rates of all. Devices that share a sample's text each run all its images.
    """
    sources = _estimates(profile)
    peaks: dict[str, float] = {}
    for source in sources:
        found = source.get("peak_tflops")
        if not isinstance(found, dict) or not all(isinstance(v, (int, float)) and 0 < v <= 1e9 for v in found.values()):
            return None
        peaks.update({str(name): float(value) for name, value in found.items()})
    work = _work_of(profile, sources[0])
    training = profile.training
    flops = (
        sum(
            _model_flops(work[name]) * (1 if profile.kinds[name].modality == "vision" else training.context_parallel)
            for name in profile.layer_kinds
            if work
        )
        * training.tensor_parallel
    )
    return ModelWork(flops, peaks) if flops and peaks else None


def _model_flops(work: KindWork) -> int:
    """Return the model FLOPs of a layer on a device: its forward's for each pass, those left out where it is frozen."""
    frozen = work.backward is not None
    passes = 1 + sum(work.flops[name] > 0 for name in PASSES[1:]) if frozen else 3
    return passes * work.flops["forward"]


def _estimates(profile: Profile) -> list[dict[str, Any]]:
    """Return the provenances that a profile has: its own, or those of the profiles it was merged from."""
    listed = profile.provenance.get("sources")
    sources = [item.get("provenance") for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    return [source for source in sources if isinstance(source, dict)] or [profile.provenance]


def load_profile(file: str) -> Loaded[Profile]:
    """Return the profile in a file, with its digest; raises InputError."""
    document = read_document(file, SCHEMA)
    file = shown_file(file)
    return Loaded(profile_from_document(document, file), file, digest(document))


def profile_document(profile: Profile) -> Document:
    """Return a profile as a document: keys in the order of the format, defaults left out."""
    return cast(Document, msgspec.to_builtins(profile))
