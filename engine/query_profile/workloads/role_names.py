"""Name the users and databases whose ids alone a snapshot has, where another file tells them."""

from __future__ import annotations

from dataclasses import replace

from engine.core.inputs import Inputs
from engine.query_profile.workloads.workload import Workload

Names = dict[tuple[str, str], str]
"""Name by kind (user or database) and id; ids that two files name differently are absent."""


def names_of(inputs: Inputs, system: str) -> Names:
    """Return the names in the files; none for a workload that is not PostgreSQL's, whose ids are others."""
    if system != "postgresql":
        return {}
    found: dict[tuple[str, str], set[str]] = {}
    for what, number, name in inputs.table("server_names").select("what", "id", "name").unique().iter_rows():
        found.setdefault((what, number), set()).add(name)
    return {key: next(iter(names)) for key, names in found.items() if len(names) == 1}


def named(work: Workload, names: Names) -> Workload:
    """Return the workload with names in place of ids of users and databases; classes keep their own names, which tell them
    apart."""
    if not names:
        return work
    infos = tuple(
        replace(
            info,
            user=names.get(("user", info.user), info.user),
            database=names.get(("database", info.database), info.database),
        )
        for info in work.classes
    )
    return work if infos == work.classes else replace(work, classes=infos)
