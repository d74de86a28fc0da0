"""The engines' rules on random plans: they always have an answer, and the exports go by it."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octopipe_cli.engines import ENGINES, why_not
from octopipe_cli.engines.renumber import by_last_stage
from octopipe_cli.errors import InvalidPlanError
from octopipe_cli.export import Options, export, target_named
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Engine, parse_orders
from octopipe_cli.replay import replay
from octopipe_cli.simulate import simulate

from ..instances import plan_from, random_instance

FIXED: tuple[Engine, ...] = ("megatron", "megatron-hybrid", "deepspeed")


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32))
def test_exports_refuse_what_the_rules_refuse(seed: int) -> None:
    rng = Random(seed)
    instance = random_instance(rng, empty_stages=rng.random() < 0.5)
    plan = plan_from(instance)
    symbols = {kind: "*-" for kind, role in plan.kinds.items() if role == "mtp"}
    for engine in FIXED:
        violations = why_not(plan, engine, symbols)
        for violation in violations:
            assert violation.path.startswith("$.")
        arguments = (Loaded(plan, "a.plan.json", ""), target_named(engine), Options(symbols=symbols))
        if not violations:
            assert export(*arguments).strip()
            continue
        with pytest.raises(InvalidPlanError) as caught:
            export(*arguments)
        assert f"rule {violations[0].rule}: " in caught.value.message
        assert caught.value.remedy


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32))
def test_renumbered_plans_take_as_long(seed: int) -> None:
    plan = plan_from(random_instance(Random(seed)))
    before = parse_orders(plan.orders)
    after = by_last_stage(before)
    assert [[(a.stage, a.kind) for a in order] for order in after] == [[(a.stage, a.kind) for a in o] for o in before]
    timeline = replay(plan, "plan")

    assert simulate(timeline.pipeline, after).start_ns == timeline.start_ns
    assert by_last_stage(after) == after


def test_every_engine_says_what_it_is() -> None:
    for name, engine in ENGINES.items():
        assert engine.name == name
        assert all((engine.placement, engine.orders, engine.backward, engine.description))
        ids = [rule.id for rule in engine.rules]
        assert len(set(ids)) == len(ids)
        assert all(ids.index(need) < ids.index(rule.id) for rule in engine.rules for need in rule.needs)
