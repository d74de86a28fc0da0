"""Thresholds, effects and what fails: from the project's file and from the command line."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from octopipe_cli.config import Config
from octopipe_cli.diff.change import Change
from octopipe_cli.diff.compare import compare_plans
from octopipe_cli.diff.settings import Settings, read_settings
from octopipe_cli.errors import InputError
from tests.diff.plans import plan, profile


def config(**table: Any) -> Config:
    return Config("pyproject.toml", "$.tool.octopipe", {"diff": table})


def slower() -> Any:
    """Return a plan whose step is 146 ms instead of 142: 2.8 % more."""
    return plan(model=profile(kinds__head__times__a100__forward_ms=7))


def judged(settings: Settings) -> tuple[Change, list[str]]:
    changes = compare_plans(plan(), slower(), thresholds=settings.thresholds)
    (step,) = [change for change in changes if change.id == "step-time-slower"]
    return step, [change.id for change in settings.failing(changes)]


def test_without_settings_any_slowdown_fails() -> None:
    step, failing = judged(read_settings(None, {}))
    assert (step.effect, step.details, failing) == ("regression", (), ["step-time-slower"])


@pytest.mark.parametrize(
    ("limit", "effect", "detail"),
    [
        ("3%", "neutral", "within the threshold of 3.00 %"),
        ("2.5 %", "regression", "beyond the threshold of 2.50 %"),
        ("0%", "regression", "beyond the threshold of 0.00 %"),
    ],
)
def test_a_slowdown_within_the_threshold_is_listed_but_neutral(limit: str, effect: str, detail: str) -> None:
    step, failing = judged(read_settings(None, {"max_slowdown": limit}))
    assert (step.effect, step.details) == (effect, (detail,))
    assert ("step-time-slower" in failing) == (effect == "regression")


def test_a_slowdown_of_just_the_threshold_is_within_it() -> None:
    limit = {"step-time-slower": Fraction(400, 142)}
    settings = Settings(thresholds=read_settings(None, {}).thresholds.__class__(limits=limit))
    assert judged(settings)[0].effect == "neutral"


def test_memory_fails_only_where_its_growth_is_limited() -> None:
    heavier = plan(model=profile(kinds__mlp__activation_bytes=2**28))
    for options, effects in (
        ({}, ["neutral", "neutral"]),
        ({"max_memory_growth": "10%"}, ["neutral", "regression"]),  # 9.1 % and 13.6 %
        ({"max_memory_growth": "5%"}, ["regression", "regression"]),
    ):
        changes = compare_plans(plan(), heavier, thresholds=read_settings(None, options).thresholds)
        assert [change.effect for change in changes if change.id == "rank-memory-higher"] == effects


def test_fail_on() -> None:
    changes = compare_plans(plan(), slower())
    assert Settings("any").failing(changes) == changes
    assert [change.id for change in Settings("regression").failing(changes)] == ["step-time-slower"]
    assert Settings("never").failing(changes) == []


def test_the_file_sets_and_options_win() -> None:
    file = config(fail_on="any", max_slowdown="3%", min_headroom_gib=2, max_memory_growth="1%")
    settings = read_settings(file, {"fail_on": None, "max_slowdown": "1%"})
    assert settings.fail_on == "any"
    assert settings.thresholds.limits == {"step-time-slower": 1, "span-longer": 1, "rank-memory-higher": 1}
    assert settings.thresholds.min_headroom_bytes == 2**31
    assert read_settings(file, {"min_headroom_gib": 0.5}).thresholds.min_headroom_bytes == 2**29


def test_a_single_id_wins_over_what_stands_for_several_and_an_option_over_both() -> None:
    file = config(max_slowdown="3%", thresholds={"step-time-slower": "2%", "bubble-ratio-higher": "0.5%"})
    limits = read_settings(file, {}).thresholds.limits
    assert limits == {"step-time-slower": 2, "span-longer": 3, "bubble-ratio-higher": Fraction(1, 2)}
    assert read_settings(file, {"max_slowdown": "1%"}).thresholds.limits["step-time-slower"] == 1


def test_effects_by_id() -> None:
    file = config(effects={"step-time-slower": "neutral", "stage-costs-changed": "regression"})
    step, failing = judged(read_settings(file, {}))
    assert (step.effect, failing) == ("neutral", ["stage-costs-changed"])


@pytest.mark.parametrize(
    ("table", "path", "message"),
    [
        ({"max_slowdow": "1%"}, "$.tool.octopipe.diff.max_slowdow", 'unknown key "max_slowdow"'),
        ({"max_slowdown": "1"}, "$.tool.octopipe.diff.max_slowdown", "not a percentage"),
        ({"max_slowdown": 1}, "$.tool.octopipe.diff.max_slowdown", "not a percentage"),
        ({"max_slowdown": "-1%"}, "$.tool.octopipe.diff.max_slowdown", "not a percentage"),
        ({"min_headroom_gib": "2"}, "$.tool.octopipe.diff.min_headroom_gib", "not a size"),
        ({"min_headroom_gib": True}, "$.tool.octopipe.diff.min_headroom_gib", "not a size"),
        ({"min_headroom_gib": float("nan")}, "$.tool.octopipe.diff.min_headroom_gib", "not a size"),
        ({"fail_on": "all"}, "$.tool.octopipe.diff.fail_on", "not a value that can stand here"),
        ({"fail_on": []}, "$.tool.octopipe.diff.fail_on", "not a value that can stand here"),
        ({"thresholds": 3}, "$.tool.octopipe.diff.thresholds", "not a table"),
        ({"thresholds": {"slow": "1%"}}, "$.tool.octopipe.diff.thresholds.slow", "no kind of change"),
        (
            {"thresholds": {"layers-moved": "1%"}},
            "$.tool.octopipe.diff.thresholds.layers-moved",
            "a kind of change without a threshold",
        ),
        ({"effects": {"layers-moved": "bad"}}, "$.tool.octopipe.diff.effects.layers-moved", "not a value that"),
    ],
)
def test_wrong_settings_are_named_with_their_place(table: dict[str, Any], path: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_settings(config(**table), {})
    assert (caught.value.file, caught.value.path) == ("pyproject.toml", path)


def test_a_wrong_option_is_named() -> None:
    with pytest.raises(InputError, match="not a percentage") as caught:
        read_settings(None, {"max_slowdown": "fast"})
    assert (caught.value.file, caught.value.path) == (None, "--max-slowdown")
