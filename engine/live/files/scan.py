"""What is there: every regular file below some roots with its identity, and what differs from the last look.

Events only say where to look; this module says what is true. A full scan compares every file by ``stat``; a hinted
one only the named paths. Directories are visited once by identity, so that overlapping roots and symbolic links (and
loops of them) give each directory one path: the real one rather than a linked one, in the order of the roots.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import re
import stat as modes
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from engine.problems import Problem
from engine.text import clean

Stat = tuple[int, int, int, int, int]
"""Device, inode, size, mtime (ns), ctime (ns)."""

_STEP = 128
"""After so many entries of a directory a scan asks whether it is to end early."""

MANY = 2000
"""More hints than this are answered by a full scan."""

_SUFFIXES = (".tmp", ".part", "~", "_tmp", ".crc")
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR})


_TOOLS = frozenset({".git", ".hg", ".svn", ".venv", ".cache", ".snapshot", ".zfs", ".Trash"})


def ignored(name: str) -> bool:
    """Whether a file called ``name`` is someone's scratch: dot files, temporary and checksum files."""
    return name.startswith(".") or name.endswith(_SUFFIXES)


def ignored_folder(name: str) -> bool:
    """Whether a directory called ``name`` is scratch or a tool's own. A leading dot alone does not make it so: the
    histories of running Hadoop jobs lie in ``.staging``."""
    return name in _TOOLS or name.endswith(_SUFFIXES)


class _Interrupted(Exception):
    """A scan that ends early."""


@dataclass(slots=True)
class Folder:
    """One directory as last seen: its identity and the files and directories in it by name."""

    path: str
    root: int
    identity: tuple[int, int]
    files: dict[str, Stat] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    links: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Changes:
    """What a look found: paths that are new or have another stat, and paths that are gone."""

    changed: dict[str, Stat] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone)


class Scanner:
    """Remembers what was below ``roots`` (absolute paths) and finds what has changed since."""

    def __init__(self, roots: Sequence[str], *, ignore: Sequence[str] = (), follow_symlinks: bool = True) -> None:
        self.roots = tuple(roots)
        self.folders: dict[str, Folder] = {}
        self.singles: dict[str, Stat] = {}
        self.problems: dict[str, Problem] = {}
        self.skipped: dict[str, str] = {}
        self.root_identities: dict[str, tuple[int, int] | None] = dict.fromkeys(self.roots)
        self._aliases: dict[str, str] = {}
        self.complete = True
        self._interrupted: Callable[[], bool] | None = None
        self._follow = follow_symlinks
        pattern = "|".join(fnmatch.translate(text) for text in ignore)
        self._ignore = re.compile(pattern) if pattern else None

    def ignored(self, name: str) -> bool:
        """Whether files of this name are left out."""
        return ignored(name) or self._unwanted(name)

    def ignored_folder(self, name: str) -> bool:
        """Whether directories of this name are left out, with all below them."""
        return ignored_folder(name) or self._unwanted(name)

    def _unwanted(self, name: str) -> bool:
        return self._ignore is not None and self._ignore.match(name) is not None

    @property
    def count(self) -> int:
        """Number of regular files seen."""
        return len(self.singles) + sum(len(folder.files) for folder in self.folders.values())

    def stat_of(self, path: str) -> Stat | None:
        """Identity of the file at ``path`` as last seen, None if none was."""
        single = self.singles.get(path)
        if single is not None:
            return single
        parent, name = os.path.split(path)
        folder = self.folders.get(parent)
        return folder.files.get(name) if folder is not None else None

    def root_of(self, path: str) -> int:
        """Index of the root under which ``path`` was found."""
        if path in self.singles:
            return self.roots.index(path)
        folder = self.folders.get(os.path.dirname(path))
        return folder.root if folder is not None else 0

    # -- full scan ---------------------------------------------------------------------------------------------

    def scan(self, interrupted: Callable[[], bool] | None = None) -> Changes:
        """Look everywhere. Ends early when ``interrupted`` says so: then ``complete`` is False, what was found is true, and
        of all other places is known what was known before."""
        known = (self.problems, self.skipped, self._aliases)
        changes = Changes()
        try:
            self._scan(changes, interrupted)
        except _Interrupted:
            self.complete = False
            problems, skipped, aliases = known
            self.problems, self.skipped = {**problems, **self.problems}, {**skipped, **self.skipped}
            self._aliases = {**aliases, **self._aliases}
        else:
            self.complete = True
        finally:
            self._interrupted = None
        changes.gone -= changes.changed.keys()
        return changes

    def _scan(self, changes: Changes, interrupted: Callable[[], bool] | None) -> None:
        self._interrupted = interrupted
        self.problems = {}
        self.skipped = {}
        self._aliases = {}
        visited: dict[tuple[int, int], str] = {}
        seen: set[str] = set()
        linked: list[tuple[str, int]] = []
        singles: set[str] = set()
        for number, root in enumerate(self.roots):
            try:
                status = os.stat(root)
            except OSError as error:
                self.root_identities[root] = None
                if error.errno in _GONE:
                    self.problems[root] = Problem.at(root, "missing-root", "there is no such file or folder")
                else:
                    self._unreadable(root, error)
                    seen |= self._below(root)
                    if root in self.singles:
                        singles.add(root)
                continue
            self.root_identities[root] = (status.st_dev, status.st_ino)
            if modes.S_ISDIR(status.st_mode):
                self._walk(root, number, visited, seen, linked, changes)
            elif modes.S_ISREG(status.st_mode):
                singles.add(root)
                self._single(root, status, changes)
            else:
                self.problems[root] = Problem.at(root, "unreadable", "neither a regular file nor a folder")
        while linked:
            path, number = linked.pop(0)
            self._walk(path, number, visited, seen, linked, changes)
        for path in self.singles.keys() - singles:
            del self.singles[path]
            changes.gone.add(path)
        for path in self.folders.keys() - seen:
            self._drop(path, changes)

    def _single(self, root: str, status: os.stat_result, changes: Changes) -> None:
        found = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if self.singles.get(root) != found:
            self.singles[root] = found
            changes.changed[root] = found

    def _unreadable(self, path: str, error: OSError) -> None:
        self.problems[path] = Problem.at(path, "unreadable", f"{error.strerror or error}")

    def _below(self, path: str) -> set[str]:
        prefix = path.rstrip("/") + "/"
        return {known for known in self.folders if known == path or known.startswith(prefix)}

    def _drop(self, path: str, changes: Changes) -> None:
        folder = self.folders.pop(path)
        changes.gone.update(os.path.join(path, name) for name in folder.files)

    def _walk(
        self,
        top: str,
        root: int,
        visited: dict[tuple[int, int], str],
        seen: set[str],
        linked: list[tuple[str, int]],
        changes: Changes,
    ) -> None:
        stack = [top]
        while stack:
            path = stack.pop()
            try:
                status = os.stat(path)
                identity = (status.st_dev, status.st_ino)
                known = visited.get(identity)
                if known is not None:
                    if known != path:
                        self._aliases[path] = known
                    continue
                visited[identity] = path
                folder = self._list(path, root, identity, changes)
            except OSError as error:
                if error.errno not in _GONE:
                    # What was read from there stays: the operator is told that it cannot be checked any more.
                    self._unreadable(path, error)
                    seen |= self._below(path)
                continue
            seen.add(path)
            join = path.rstrip("/") + "/"
            stack.extend(sorted((join + name for name in folder.folders), reverse=True))
            linked.extend((join + name, root) for name in sorted(folder.links))

    def _list(self, path: str, root: int, identity: tuple[int, int], changes: Changes) -> Folder:
        """Compare one directory with what was known of it. Raises OSError if it cannot be read."""
        folder = self.folders.get(path)
        if folder is None or folder.identity != identity:
            before = folder.files if folder is not None else {}
            folder = Folder(path, root, identity, dict(before))
        folder.root = root
        known = folder.files
        found = 0
        present: list[str] = []
        folders: set[str] = set()
        links: set[str] = set()
        join = path.rstrip("/") + "/"
        with os.scandir(path) as entries:
            for count, entry in enumerate(entries):
                if not count % _STEP and self._interrupted is not None and self._interrupted():
                    self.folders[path] = folder  # with what was found so far
                    raise _Interrupted
                name = entry.name
                old = known.get(name)
                hidden = old is None and self.ignored(name)
                if hidden and self.ignored_folder(name):
                    continue
                try:
                    if entry.is_symlink():
                        if not self._follow:
                            continue
                        if entry.is_dir():
                            links.add(name)
                            continue
                        if hidden:
                            continue
                    elif entry.is_dir(follow_symlinks=False):
                        folders.add(name)
                        continue
                    elif hidden:
                        continue
                    elif not entry.is_file(follow_symlinks=False):
                        self._skip(join + name, "not a regular file")
                        continue
                    status = entry.stat()
                except OSError as error:
                    if error.errno in _GONE:
                        self._skip(join + name, "broken link" if entry.is_symlink() else "gone")
                    elif error.errno == errno.ELOOP:
                        self._skip(join + name, "link to itself")
                    else:
                        self._unreadable(join + name, error)
                        if old is not None:
                            present.append(name)
                            found += 1
                    continue
                if not modes.S_ISREG(status.st_mode):
                    self._skip(join + name, "not a regular file")
                    continue
                found += 1
                present.append(name)
                new = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                if new != old:
                    known[name] = new
                    changes.changed[join + name] = new
        if found != len(known):
            for name in known.keys() - set(present):
                del known[name]
                changes.gone.add(join + name)
        folder.folders = folders
        folder.links = links
        self.folders[path] = folder
        return folder

    def _skip(self, path: str, reason: str) -> None:
        if len(self.skipped) < 1000:
            self.skipped[path] = reason

    # -- hints -------------------------------------------------------------------------------------------------

    def look(self, hints: Iterable[str]) -> Changes | None:
        """Look only at the named paths. None: that would not be enough, scan everything."""
        changes = Changes()
        for count, hint in enumerate(sorted(set(hints))):
            if count > MANY or not self._hint(os.path.normpath(hint), changes):
                # What was noted so far would be lost with this answer: forget it, so that the scan finds it again.
                self._unsee(changes)
                return None
        changes.gone -= changes.changed.keys()
        return changes

    def _unsee(self, changes: Changes) -> None:
        for path in changes.changed:
            if path in self.singles:
                self.singles[path] = (0, 0, -1, 0, 0)
            else:
                folder = self.folders.get(os.path.dirname(path))
                if folder is not None and os.path.basename(path) in folder.files:
                    folder.files[os.path.basename(path)] = (0, 0, -1, 0, 0)
        for path in changes.gone:
            folder = self.folders.get(os.path.dirname(path))
            if folder is None:
                folder = self.folders[os.path.dirname(path)] = Folder(os.path.dirname(path), 0, (0, 0))
            folder.files.setdefault(os.path.basename(path), (0, 0, -1, 0, 0))

    def _hint(self, path: str, changes: Changes) -> bool:
        if path in self.root_identities:
            if path not in self.singles:
                return False
            try:
                status = os.stat(path)
            except OSError:
                return False
            if not modes.S_ISREG(status.st_mode):
                return False
            self._single(path, status, changes)
            return True
        parent, name = os.path.split(path)
        folder = self.folders.get(parent)
        if folder is None:
            canonical = self._canonical(parent)
            if canonical is None:
                # Below something ignored: nothing to do. Else below a directory that is new.
                return any(self.ignored_folder(part) for part in self._relative(path).split("/")) or self._arrived(
                    parent, changes
                )
            folder = self.folders[canonical]
            path = os.path.join(canonical, name)
        if self.ignored_folder(name) or (self.ignored(name) and not os.path.isdir(path)):
            return True
        try:
            status = os.lstat(path)
            if modes.S_ISLNK(status.st_mode):
                return False
        except OSError as error:
            if error.errno not in _GONE:
                return False
            return self._vanished(folder, name, path, changes)
        if modes.S_ISREG(status.st_mode):
            if name in folder.folders or name in folder.links:
                return False
            new = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            if folder.files.get(name) != new:
                folder.files[name] = new
                changes.changed[path] = new
                changes.gone.discard(path)
            return True
        return self._arrived(path, changes)

    def _arrived(self, path: str, changes: Changes) -> bool:
        """Walk a directory that is new, with all that is in it: events inside may have come before its watch. False
        where a look at it alone cannot tell what it means: links, other names of known directories, errors."""
        parent = os.path.dirname(path)
        while parent not in self.folders:
            path, parent = parent, os.path.dirname(parent)
            if path == parent:
                return False
        known, name = self.folders[parent], os.path.basename(path)
        if path in self.folders or path in self.root_identities or name in known.files or name in known.links:
            return False
        try:
            status = os.lstat(path)
        except OSError:
            return False
        visited = {folder.identity: place for place, folder in self.folders.items()}
        if not modes.S_ISDIR(status.st_mode) or (status.st_dev, status.st_ino) in visited:
            return False
        aliases, problems = len(self._aliases), len(self.problems)
        linked: list[tuple[str, int]] = []
        self._walk(path, known.root, visited, set(), linked, changes)
        if linked or (len(self._aliases), len(self.problems)) != (aliases, problems):
            return False
        known.folders.add(name)
        return True

    def _vanished(self, folder: Folder, name: str, path: str, changes: Changes) -> bool:
        if name in folder.files:
            del folder.files[name]
            changes.gone.add(path)
            changes.changed.pop(path, None)
        elif name in folder.folders or name in folder.links:
            return False
        return True

    def _canonical(self, parent: str) -> str | None:
        probe, rest = parent, ""
        while probe not in ("/", ""):
            target = self._aliases.get(probe)
            if target is not None:
                found = os.path.join(target, rest) if rest else target
                return found if found in self.folders else None
            probe, tail = os.path.split(probe)
            rest = os.path.join(tail, rest) if rest else tail
        return None

    def _relative(self, path: str) -> str:
        for root in self.roots:
            if path.startswith(root.rstrip("/") + "/"):
                return path[len(root.rstrip("/")) + 1 :]
        return path


def label(path: str, root: str) -> str:
    """``path`` as an operator would write it: relative to ``root``, harmless for a terminal."""
    prefix = root.rstrip("/") + "/"
    return clean(path[len(prefix) :] if path.startswith(prefix) else os.path.basename(path))
