"""Places of paths: below which root, inside which folder, and how an operator would write them."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping

from engine.core.text import clean


def inside(link: str, roots: Iterable[str]) -> bool:
    """Whether ``link`` leads to a place below one of ``roots``."""
    target = os.path.realpath(link)
    return any(target == root or target.startswith(root.rstrip("/") + "/") for root in roots)


def below(path: str, folders: Iterable[str]) -> set[str]:
    """Return those of ``folders`` that are ``path`` or lie below it."""
    prefix = path.rstrip("/") + "/"
    return {folder for folder in folders if folder == path or folder.startswith(prefix)}


def canonical(path: str, aliases: Mapping[str, str], folders: Container[str]) -> str | None:
    """Return which of ``folders`` is meant by ``path``, a path through linked folders; ``aliases``: link to folder."""
    probe, rest = path, ""
    while probe not in ("/", ""):
        target = aliases.get(probe)
        if target is not None:
            place = os.path.join(target, rest) if rest else target
            return place if place in folders else None
        probe, tail = os.path.split(probe)
        rest = os.path.join(tail, rest) if rest else tail
    return None


def relative(path: str, roots: Iterable[str]) -> str:
    """Return ``path`` from the first of ``roots`` that holds it, unchanged if none does."""
    for root in roots:
        if path.startswith(root.rstrip("/") + "/"):
            return path[len(root.rstrip("/")) + 1 :]
    return path


def label(path: str, root: str) -> str:
    """Return ``path`` as an operator would write it: relative to ``root``, harmless for a terminal."""
    prefix = root.rstrip("/") + "/"
    return clean(path[len(prefix) :] if path.startswith(prefix) else os.path.basename(path))
