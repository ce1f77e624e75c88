"""Catalogue of all files below the roots: under which paths each was found, and which must be visited after a change."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from engine.live.files.scan import Changes
from engine.live.files.tracked_file import TrackedFile
from engine.live.ingest.follower import Follower


class Catalogue:
    """Files by device and inode, and by path."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self.files: dict[tuple[int, int], TrackedFile] = {}
        self._by_path: dict[str, TrackedFile] = {}

    def apply(
        self, changes: Changes, root_of: Callable[[str], str]
    ) -> tuple[dict[TrackedFile, bool], Sequence[TrackedFile]]:
        """Take over what a scan found. ``root_of``: the root under which a path was found.

        Returns the files to visit, with whether only because a sibling has changed, and the files that are gone.
        """
        touched, lost = self._match(changes)
        visits = dict.fromkeys((file for file in touched if file.paths), False)
        groups = {file.group for file in touched}
        for file in visits:
            path = _best(file.paths)
            self._follower.twins.place(file, path, root_of(path))
            groups.add(file.group)
        for path, file in lost:
            heir = self._by_path.get(path)
            if not file.paths and heir is not None and heir is not file:
                self._follower.registry.inherit(heir, file)
        gone = [file for file in touched if not file.paths]
        for file in gone:
            self._follower.registry.release_all(file)
            self._follower.twins.leave(file)
            if self.files.get(file.identity) is file:
                del self.files[file.identity]
        for file in list(visits):
            for sibling in self._follower.twins.packed(file):
                visits.setdefault(sibling, True)
        for group in groups:
            for sibling in self._follower.twins.groups.get(group, ()):
                if sibling.packing:
                    visits.setdefault(sibling, True)
        return visits, gone

    def _match(self, changes: Changes) -> tuple[dict[TrackedFile, None], list[tuple[str, TrackedFile]]]:
        """Bring the paths of all files up to date. Returns the files concerned, and those that have lost a path."""
        touched: dict[TrackedFile, None] = {}
        lost: list[tuple[str, TrackedFile]] = []

        def leave(path: str, file: TrackedFile | None) -> None:
            if file is not None:
                file.paths.discard(path)
                touched[file] = None
                lost.append((path, file))

        for path in changes.gone:
            leave(path, self._by_path.pop(path, None))
        for path, stat in changes.changed.items():
            identity = stat[:2]
            old = self._by_path.get(path)
            if old is not None and old.identity != identity:
                leave(path, old)
            file = self.files.get(identity)
            if file is None:
                file = self.files[identity] = TrackedFile(identity)
            file.paths.add(path)
            self._by_path[path] = file
            touched[file] = None
        return touched, lost


def _best(paths: set[str]) -> str:
    """Return the path that stands for a file with several names: a real one before a link, then the first."""
    if len(paths) == 1:
        return next(iter(paths))
    return min(paths, key=lambda path: (os.path.islink(path), os.path.realpath(path) != path, path))
