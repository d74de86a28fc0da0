"""The plan file: stages, placement, orders and what they are predicted to cost."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal, NamedTuple, cast

import msgspec

from octopipe_cli.cluster import P2P
from octopipe_cli.conversion import convert
from octopipe_cli.errors import InputError
from octopipe_cli.formats import Document, Loaded, Record, digest, path_of, read_document, show, shown_file
from octopipe_cli.profile import Group, Name, Role, Training

SCHEMA: Final = "octopipe.plan"
MAX_MICROBATCHES: Final = 100_000
ORDER_WIDTH: Final = 100

ActionKind = Literal["F", "I", "W", "B"]
Engine = Literal["any", "torch", "torchtitan", "megatron", "megatron-hybrid", "deepspeed"]
Effort = Literal["quick", "standard", "thorough"]
Recompute = Literal["auto", "none", "full"]
Backward = Literal["split", "fused"]
Placement = Literal["free", "cyclic", "v"]
Objective = Literal["step", "span"]
Part = Literal["partition", "placement", "order"]
Robust = Literal["mean", "p95", "worst"]
#: A micro-batch's length relative to the profile's.
Length = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
#: What a bound may rest on; `search.relaxation.CertifiedBound` says what they are.
BoundArgument = Literal[
    "load",
    "part",
    "round trip",
    "gradients",
    "path",
    "memory at the turns",
    "memory over time",
    "packing",
    "relaxation",
    "exact",
]
Nanoseconds = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Size = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Index = Annotated[int, msgspec.Meta(ge=0, le=10**6)]
Digest = Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}$")]


class Action(NamedTuple):
    """One piece of work, written as PyTorch does: stage, kind, micro-batch (``3I7``)."""

    stage: int
    kind: ActionKind
    microbatch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.microbatch}"


#: The actions of each rank, in the order it runs them.
Orders = tuple[tuple[Action, ...], ...]


class InputFile(Record, frozen=True, kw_only=True):
    """A file the plan was made from."""

    name: Name
    digest: Digest


class Inputs(Record, frozen=True, kw_only=True):
    """The files the plan was made from."""

    profile: InputFile
    cluster: InputFile


class Request(Record, frozen=True, kw_only=True, omit_defaults=False):
    """All that the search depended on besides its input files."""

    num_microbatches: Annotated[int, msgspec.Meta(ge=1, le=MAX_MICROBATCHES)]
    engine: Engine = "any"
    recompute: Recompute = "auto"
    effort: Effort = "standard"
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
    backward: Backward = "split"
    placement: Placement = "free"
    objective: Objective = "step"
    max_stages_per_rank: Annotated[int, msgspec.Meta(ge=1)] | None = None
    #: The digest of the plan the search began from.
    warm_start: Digest | None = None
    #: By how many per cent a plan that moves fewer layers may be slower than the best found.
    stability_percent: Annotated[float, msgspec.Meta(ge=0, le=100)] | None = None
    #: What of the plan the search began from is held fixed.
    keep: tuple[Part, ...] | None = None
    #: By how many per cent times may be off in the draws by which near-equal plans are compared.
    robust_noise_percent: Annotated[float, msgspec.Meta(ge=0, le=100)] | None = None
    #: Whether the ranks' order along the model was searched too.
    reorder_ranks: bool | None = None
    #: By modality, the length of every micro-batch.
    lengths: dict[Name, list[Length]] | None = None
    #: The digest of the sets of lengths that were read.
    lengths_digest: Digest | None = None
    #: What of the step times over many sets of lengths was searched for the least of: the mean, or half of it and half
    #: of their 95th percentile or largest.
    robust: Robust | None = None
    #: Whether the micro-batches stay in the order of the lists.
    keep_order: bool | None = None


#: What plans that did not ask for it leave out of their request: they are the same bytes as before it could be asked.
UNLESS_ASKED: Final = (
    "warm_start",
    "stability_percent",
    "keep",
    "robust_noise_percent",
    "reorder_ranks",
    "lengths",
    "lengths_digest",
    "robust",
    "keep_order",
)


class PredictedRank(Record, frozen=True, kw_only=True):
    """What one rank is predicted to do."""

    rank: Index
    busy_ns: Nanoseconds
    peak_memory_bytes: Size
    first_start_ns: Nanoseconds
    last_end_ns: Nanoseconds
    engine_memory_bytes: Size = 0


class Predicted(Record, frozen=True, kw_only=True):
    """What the plan is predicted to cost."""

    step_time_ns: Nanoseconds
    span_ns: Nanoseconds
    bubble_ratio: float
    ranks: list[PredictedRank]


class Bound(Record, frozen=True, kw_only=True):
    """The certified lower bound: no plan within `scope` is faster; `plan_ns` speaks of this partition and placement.

    `argument` is what it rests on.
    """

    step_time_ns: Nanoseconds
    gap: float
    scope: str
    span_ns: Nanoseconds | None = None
    plan_ns: Nanoseconds | None = None
    argument: BoundArgument | None = None


class PlanRank(Record, frozen=True, kw_only=True, omit_defaults=False):
    """What the plan depends on of a rank."""

    hardware: Name
    memory_limit_bytes: Size | None
    step_ns: Nanoseconds
    node: int = 0


class Baseline(Record, frozen=True, kw_only=True):
    """The best classic schedule on the same inputs."""

    schedule: str
    step_time_ns: Nanoseconds
    speedup: float
    partition: str | None = None


class RobustFigures(Record, frozen=True, kw_only=True):
    """Step times over the sets of lengths that the plan was not made with: their digest, how many, what they cost."""

    digest: Digest
    count: Annotated[int, msgspec.Meta(ge=1)]
    mean_ns: Nanoseconds
    p95_ns: Nanoseconds
    worst_ns: Nanoseconds


class StageBytes(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Bytes of a stage: its state (tied copies included) and, per micro-batch, what it holds."""

    state: Size = 0
    held: Size = 0
    weight: Size = 0
    transient: Size = 0
    workspace: Size = 0
    input: Size = 0
    output: Size = 0


class TransferTimes(Record, frozen=True, kw_only=True, omit_defaults=False):
    """Transfer times to the next (forward) and to the previous stage (backward)."""

    forward: Nanoseconds
    backward: Nanoseconds


class PlanStage(Record, frozen=True, kw_only=True, omit_defaults=False):
    """A stage: layers a .. b-1 on a rank."""

    layers: tuple[Index, Index]
    kinds: list[Name | Group]
    rank: Index
    recompute: bool
    bytes: StageBytes
    action_ns: dict[ActionKind, Nanoseconds]
    transfer_ns: TransferTimes


class Search(Record, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """How the search ended, and what each engine would reach; further keys may stand here."""

    stopped_by: str
    reproducible: bool
    engines: dict[str, Nanoseconds] = {}


class PlanTraining(Training, frozen=True, kw_only=True):
    """The training run the profile's times belong to: what turns a step time into tokens per second and MFU.

    `model_flops` are those of one micro-batch through the whole model, of all devices of one replica: forward and
    backward, nothing counted twice that is computed again. `peak_tflops` is what one device of each hardware reaches
    on paper in the run's number format.
    """

    model_flops: Annotated[int, msgspec.Meta(ge=1)] | None = None
    peak_tflops: dict[Name, Annotated[float, msgspec.Meta(gt=0, le=1e9)]] | None = None


class Plan(Record, frozen=True, kw_only=True):
    """A plan, as its file holds it.

    `rank_order`, where there is one: the rank at each place along the model. A placement in a circle or a V goes by
    places; everything else names ranks by their numbers in the cluster.
    """

    schema: Literal["octopipe.plan"]
    version: Literal[1]
    created_by: str
    inputs: Inputs
    request: Request
    predicted: Predicted
    bound: Bound
    p2p: P2P
    kinds: dict[Name, Role]
    ranks: Annotated[list[PlanRank], msgspec.Meta(min_length=1)]
    stages: Annotated[list[PlanStage], msgspec.Meta(min_length=1)]
    orders: list[list[str]]
    search: Search
    baseline: Baseline | None = None
    rank_order: tuple[Index, ...] | None = None
    training: PlanTraining | None = None
    microbatch_order: list[Index] | None = None
    robust: RobustFigures | None = None
    content_digest: Digest | None = None
    provenance: dict[str, Any] = {}


TOKEN: Final = re.compile(r"([0-9]{1,7})([FIWB])([0-9]{1,7})")


def parse_orders(lines: list[list[str]], file: str = "plan") -> Orders:
    """Return the orders of a plan's strings.

    Raises
    ------
    InputError
        Where a token is no action, with its place.
    """
    orders = []
    for rank, strings in enumerate(lines):
        actions = []
        for index, string in enumerate(strings):
            for token in string.split():
                match = TOKEN.fullmatch(token)
                if match is None:
                    raise InputError(
                        "not an action",
                        file=file,
                        path=f"$.orders[{rank}][{index}]",
                        found=show(token),
                        expected="stage, F, I, W or B, micro-batch: 3I7",
                    )
                actions.append(Action(int(match[1]), cast(ActionKind, match[2]), int(match[3])))
        orders.append(tuple(actions))
    return tuple(orders)


def write_orders(orders: Iterable[Iterable[Action]]) -> list[list[str]]:
    """Return orders as a plan's strings: action tokens, wrapped for diffs."""
    return [textwrap.wrap(" ".join(map(str, actions)), ORDER_WIDTH) for actions in orders]


def load_plan(file: str) -> Loaded[Plan]:
    """Return the plan in a file, with its digest; raises InputError. Whether it holds is `verify`'s question."""
    return plan_from_document(read_document(file, SCHEMA), shown_file(file))


def plan_from_document(document: Document, file: str) -> Loaded[Plan]:
    """Return the plan of a document whose schema and version are checked, with its digest; raises InputError."""
    plan = convert(document, Plan, file)
    _check_lengths(plan, file)
    if len(plan.orders) != len(plan.ranks):
        raise InputError(
            "not as many orders as ranks",
            file=file,
            path="$.orders",
            found=f"{len(plan.orders)} orders",
            expected=f"{len(plan.ranks)}, one a rank",
        )
    return Loaded(plan, file, digest(document))


def _check_lengths(plan: Plan, file: str) -> None:
    number, order = plan.request.num_microbatches, plan.microbatch_order
    for name, values in (plan.request.lengths or {}).items():
        if len(values) != number:
            raise InputError(
                "not as many lengths as micro-batches",
                file=file,
                path=path_of(["request", "lengths", name]),
                found=str(len(values)),
                expected=str(number),
            )
    if order is not None and sorted(order) != list(range(number)):
        raise InputError(
            "not an order of the micro-batches",
            file=file,
            path="$.microbatch_order",
            expected=f"every number from 0 to {number - 1} once",
        )


def plan_document(plan: Plan) -> Document:
    """Return a plan as a document, in the order of the format."""
    document = cast(Document, msgspec.to_builtins(plan))
    for key in UNLESS_ASKED:
        if document["request"][key] is None:
            del document["request"][key]
    return document


def content_digest(plan: Plan) -> str:
    """Return the digest of all that a plan says but `provenance`: what its own `content_digest` was when written.

    New optional fields must be left out of the file where they have their default: it then stays the same for plans
    of older versions.
    """
    return digest(plan_document(msgspec.structs.replace(plan, content_digest=None)))


def sealed(plan: Plan) -> Plan:
    """Return a plan with its content digest, by which later changes by hand are found."""
    return msgspec.structs.replace(plan, content_digest=content_digest(plan))


def is_edited(plan: Plan) -> bool:
    """Return whether a plan was changed after it was written; one without a content digest may say anything."""
    return plan.content_digest is not None and plan.content_digest != content_digest(plan)


def plan_text(plan: Plan) -> str:
    """Return a plan as the text of its file: made for line-wise diffs (a stage a line, a rank's order apart)."""
    document = plan_document(plan)
    order = ["schema", "version", "created_by", "inputs", "request", "training", "predicted", "bound", "p2p", "kinds"]
    order += ["ranks", "rank_order"]
    order += ["baseline", "stages", "orders", "microbatch_order", "robust", "search", "content_digest", "provenance"]
    parts = [f'  "{key}": {_layout(key, document[key])}' for key in order if key in document]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _layout(key: str, value: Any) -> str:
    if key in ("stages", "ranks"):
        return _listed(value, "    ", "  ")
    if key == "orders":
        return "[\n    " + ",\n    ".join(_listed(lines, "      ", "    ") for lines in value) + "\n  ]"
    if key == "predicted":
        head = {name: item for name, item in value.items() if name != "ranks"}
        return _line(head)[:-1] + f', "ranks": {_listed(value["ranks"], "    ", "  ")}}}'
    if key == "inputs":
        inner = ",\n    ".join(f'"{name}": {_line(item)}' for name, item in value.items())
        return "{\n    " + inner + "\n  }"
    return _line(value)


def _listed(items: list[Any], indent: str, closing: str) -> str:
    if not items:
        return "[]"
    return f"[\n{indent}" + f",\n{indent}".join(_line(item) for item in items) + f"\n{closing}]"


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
