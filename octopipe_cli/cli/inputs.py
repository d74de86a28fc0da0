"""Reading the files that commands take: at most one of them may be standard input."""

from __future__ import annotations

from octopipe_cli.cluster import Cluster, load_cluster
from octopipe_cli.errors import InputError
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Plan
from octopipe_cli.profile import Profile, load_profile


def check_stdin(**files: str | None) -> None:
    """Raise InputError where more than one file is ``-``."""
    names = [name for name, file in files.items() if file == "-"]
    if len(names) > 1:
        raise InputError(
            f"{' and '.join(names)} cannot both be standard input",
            found=" and ".join("-" for _ in names),
            expected="at most one -",
            remedy="write one of them to a file",
        )


def load_inputs(profile_file: str, cluster_file: str) -> tuple[Loaded[Profile], Loaded[Cluster]]:
    """Return profile and cluster, checked to belong together.

    Raises
    ------
    InputError
        Where a file is wrong, or a rank's hardware is none that the profile has times for.
    """
    from octopipe_cli.pipeline import check_hardware

    profile, cluster = load_profile(profile_file), load_cluster(cluster_file)
    check_hardware(profile.value, cluster.value, profile.file, cluster.file)
    return profile, cluster


def check_digests(plan: Loaded[Plan], profile: Loaded[Profile], cluster: Loaded[Cluster]) -> None:
    """Raise InputError where a plan was made from other files than these."""
    made_from = plan.value.inputs
    for name, wanted, given in (("profile", made_from.profile, profile), ("cluster", made_from.cluster, cluster)):
        if wanted.digest != given.digest:
            raise InputError(
                f"the plan was made from another {name} than {given.file}",
                file=plan.file,
                path=f"$.inputs.{name}.digest",
                found=f"{wanted.digest} ({wanted.name})",
                expected=f"{given.digest} ({given.value.name})",
                remedy=f"give the {name} the plan was made from, or plan again",
            )
