"""What an engine's rules make of a request and a profile: the space the search then looks through."""

from __future__ import annotations

from typing import Final

import msgspec

from octopipe_cli.engines import Violation, why_not_model
from octopipe_cli.errors import InputError
from octopipe_cli.formats import Loaded
from octopipe_cli.lengths import request_lengths
from octopipe_cli.plan import Engine, Request
from octopipe_cli.profile import Profile

#: Engines that run PyTorch's pipelining runtime, and those whose orders are settled.
TORCH_ENGINES: Final[tuple[Engine, ...]] = ("torch", "torchtitan")
FIXED_ORDERS: Final[tuple[Engine, ...]] = ("megatron", "megatron-hybrid", "deepspeed")


def _check_lengths(request: Request, profile: Loaded[Profile]) -> None:
    """Raise InputError where lengths are asked for beside what cannot have them."""
    if request.robust is None and request_lengths(profile.value, request) is None:
        return
    if request.engine != "any":
        raise InputError(
            f"{request.engine} is planned for micro-batches of one length",
            path="--lengths",
            remedy="leave out --engine, or pad to one length",
        )
    if request.keep is not None and "order" in request.keep and (request.robust or "partition" not in request.keep):
        raise InputError("cuts for a kept order are found for micro-batches of one length", path="--keep")
    if request.robust_noise_percent is not None:
        raise InputError("--robust-noise draws times of the profile's own length", path="--lengths")


def check_request(request: Request, profile: Loaded[Profile]) -> None:
    """Raise InputError where the request asks an engine for what it cannot do, or the model is none of the engine's."""
    engine, placement = request.engine, request.placement
    _check_lengths(request, profile)
    if request.reorder_ranks and request.warm_start is not None:
        raise InputError(
            "--reorder-ranks cannot begin from a plan, whose ranks stand in an order already",
            remedy="leave out --reorder-ranks, or --warm-start and --from",
        )
    if engine in FIXED_ORDERS and placement == "v":
        raise InputError(
            f"{engine} has no V placement", path="--placement", found="v", expected="cyclic, or none (free)"
        )
    if engine == "torchtitan" and placement == "v" and request.max_stages_per_rank == 1:
        raise InputError(
            "torchtitan's V has two stages a rank",
            path="--max-stages-per-rank",
            found="1",
            expected="2, or no limit",
        )
    for violation in model_faults(profile.value, engine):
        raise InputError(
            f"{engine} does not run this model: {violation.message}",
            file=profile.file,
            path=violation.path,
            remedy="plan for another engine: --engine megatron-hybrid, torch or any",
        )


def model_faults(profile: Profile, engine: Engine) -> list[Violation]:
    """Return why an engine whose orders are settled does not run a model; nothing where it does.

    Symbols of a hybrid pattern that kinds' names do not tell are asked for when the plan is exported.
    """
    if engine not in FIXED_ORDERS:
        return []
    roles = {name: kind.role for name, kind in profile.kinds.items()}
    found = why_not_model(profile.layer_kinds, roles, engine)
    return [fault for fault in found if (fault.rule, engine) != ("kinds", "megatron-hybrid")]


def engine_request(request: Request) -> Request:
    """Return the request with what its engine settles: placement, backward, stages a rank."""
    if request.engine in FIXED_ORDERS:
        most = 1 if request.engine == "deepspeed" else request.max_stages_per_rank
        return msgspec.structs.replace(request, backward="fused", placement="cyclic", max_stages_per_rank=most)
    return request


def engine_profile(profile: Profile, engine: Engine) -> Profile:
    """Return the profile as an engine runs it.

    PyTorch's runtime does nothing in I of the first stage and the whole backward in its W: that stage runs B, so the
    first layer may not split. Everything else of its kind stays.
    """
    if engine not in TORCH_ENGINES:
        return profile
    first, *others = profile.layer_kinds
    kind = profile.kinds[first]
    if not kind.splittable:
        return profile
    name = first + "'"
    while name in profile.kinds:
        name += "'"
    kinds = {**profile.kinds, name: msgspec.structs.replace(kind, splittable=False)}
    return msgspec.structs.replace(profile, kinds=kinds, layers=[name, *others])
