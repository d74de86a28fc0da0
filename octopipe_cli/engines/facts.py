"""What the engines' rules look at, and what they find."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from octopipe_cli.plan import Engine, Orders, Plan, parse_orders
from octopipe_cli.profile import expand

#: What a rule finds: the place in the plan, and what is wrong there in one sentence.
Found = Iterator[tuple[str, str]]


class Violation(NamedTuple):
    """A rule of an engine that a plan breaks: the rule's stable id, the JSON path in the plan, one sentence."""

    rule: str
    path: str
    message: str


class Facts:
    """A plan as the rules see it; everything is worked out when a rule first asks for it."""

    def __init__(self, plan: Plan, engine: Engine, symbols: Mapping[str, str]) -> None:
        self.plan = plan
        self.engine = engine
        self.symbols = symbols
        self.num_ranks = len(plan.ranks)
        self.num_stages = len(plan.stages)
        self.num_microbatches = plan.request.num_microbatches

    @cached_property
    def orders(self) -> Orders:
        """The actions of each rank."""
        return parse_orders(self.plan.orders)

    @property
    def stages_per_rank(self) -> int:
        """Stages a rank, where it is the same number on each."""
        return self.num_stages // self.num_ranks

    @cached_property
    def stages_of(self) -> list[list[int]]:
        """The stages of each rank, ascending."""
        held: list[list[int]] = [[] for _ in range(self.num_ranks)]
        for number, stage in enumerate(self.plan.stages):
            held[stage.rank].append(number)
        return held

    @cached_property
    def kinds(self) -> list[tuple[str, ...]]:
        """The kinds of each stage's layers."""
        return [tuple(expand(stage.kinds)) for stage in self.plan.stages]

    @property
    def role_of(self) -> Mapping[str, str]:
        """The role of each kind."""
        return self.plan.kinds

    @cached_property
    def roles(self) -> list[tuple[str, ...]]:
        """The roles of each stage's layers."""
        return [tuple(self.role_of.get(kind, "decoder") for kind in kinds) for kinds in self.kinds]

    @cached_property
    def split_stages(self) -> list[int]:
        """The stages that run an I or a W, ascending."""
        return sorted({stage for actions in self.orders for stage, kind, _ in actions if kind in "IW"})

    def stages_with(self, role: str) -> list[int]:
        """Return the stages that hold a layer of that role."""
        return [number for number, roles in enumerate(self.roles) if role in roles]


class ModelFacts(Facts):
    """A model as the rules on its layers see it, before there is a plan: all in one stage."""

    def __init__(self, layer_kinds: Sequence[str], role_of: Mapping[str, str], engine: Engine) -> None:
        self.kinds = [tuple(layer_kinds)]
        self._role_of = role_of
        self.engine = engine
        self.symbols = {}

    @property
    def role_of(self) -> Mapping[str, str]:
        """The role of each kind."""
        return self._role_of


class Rule(NamedTuple):
    """A rule: its stable id, its function, the rules without which it has no meaning."""

    id: str
    function: Callable[[Facts], Found]
    needs: tuple[str, ...] = ()
