"""Profiles and clusters as commands name them: files, those that ship under a name, clusters in a line."""

from __future__ import annotations

import os
from typing import Any, Final, TypeVar

from octopipe_cli.cluster import Cluster, cluster_from_document, load_cluster
from octopipe_cli.cluster_shorthand import EXAMPLES, cluster_document, looks_like, parse
from octopipe_cli.errors import InputError
from octopipe_cli.formats import Loaded, did_you_mean, digest, one_of, read_text, show
from octopipe_cli.markup import SUFFIXES
from octopipe_cli.profile import Profile, load_profile
from octopipe_cli.profiling.shipped import shipped_files

T = TypeVar("T")

_MAKE_ONE: Final = "make a profile of it: octopipe init {} --cluster 8xh100-sxm, or octopipe profile estimate"
_SHORT: Final = f"a cluster in a line ({', '.join(EXAMPLES[:2])})"


def read_profile(name: str) -> Loaded[Profile]:
    """Return the profile of a file, or the one that ships under a name where there is no such file.

    Raises
    ------
    InputError
        Where there is neither, or the file is wrong.
    """
    if _is_file(name):
        try:
            return load_profile(name)
        except InputError as error:
            if error.path == "$.schema" and name != "-" and '"model_type"' in read_text(name):
                error.remedy = f"this is a model's config; {_MAKE_ONE.format(name)}"
            raise
    shipped = shipped_files("models")
    if name in shipped:
        return _as_named(load_profile(str(shipped[name])), name)
    from octopipe_cli.profiling.configs.families import is_config

    if is_config(name):
        raise InputError(
            f"{show(name)} is a model's config, no profile",
            expected="a profile: what each layer costs on some hardware",
            remedy=_MAKE_ONE.format(name),
        )
    raise _unknown("profile", name, shipped, "`octopipe models` lists what ships; `octopipe init` makes a profile")


def read_cluster(name: str) -> Loaded[Cluster]:
    """Return the cluster of a file, of a shipped name, or of a line like ``8xh100-sxm``, in this order.

    The digest of a cluster in a line is that of the document it stands for.

    Raises
    ------
    InputError
        Where it is none of these, or the file or the line is wrong.
    """
    if _is_file(name):
        return load_cluster(name)
    shipped = shipped_files("clusters")
    if name in shipped:
        return _as_named(load_cluster(str(shipped[name])), name)
    if looks_like(name):
        document = cluster_document(parse(name))
        return Loaded(cluster_from_document(document, name), name, digest(document))
    raise _unknown("cluster", name, shipped, f"`octopipe clusters` lists what ships; or give {_SHORT}")


def miscounted(profile: Profile, cluster: Loaded[Cluster]) -> str | None:
    """Return what is to be said where a cluster in a line has other ranks than the profile was made for, else None.

    A line counts devices; a profile says how many of them are a rank, with its replicas or without them.
    """
    if os.path.exists(cluster.file) or not looks_like(cluster.file):
        return None
    training, given = profile.training, parse(cluster.file).devices_per_rank
    cut = training.tensor_parallel * training.context_parallel
    if given in (cut, cut * training.data_parallel):
        return None
    stem = cluster.file.removesuffix(f"/{given}")
    return (
        f"{cluster.file} makes each rank of {given} device{'s' if given > 1 else ''}, the profile is cut for {cut} "
        f"(tensor x context parallel): {stem}/{cut} has so many devices in all, ranks of {cut}"
    )


def names_cluster(name: str) -> bool:
    """Return whether a text that is no file names a cluster all the same."""
    return not os.path.exists(name) and (name in shipped_files("clusters") or looks_like(name))


def _is_file(name: str) -> bool:
    """Return whether a text is to be read as a file: there is one, or it can be meant as nothing else."""
    return name in ("-", "") or os.path.exists(name) or (name.endswith(SUFFIXES) and not looks_like(name))


def _as_named(loaded: Loaded[T], name: str) -> Loaded[T]:
    return Loaded(loaded.value, name, loaded.digest)


def _unknown(what: str, name: str, shipped: Any, otherwise: str) -> InputError:
    return InputError(
        "no such file"
        if os.sep in name
        else f"no {what} {show(name)}: neither a file nor one that ships with octopipe",
        file=name,
        expected=f"a file, or {one_of(shipped)}",
        remedy=did_you_mean(name, shipped, otherwise),
    )
