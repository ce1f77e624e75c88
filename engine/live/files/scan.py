"""Find every regular file below some roots with its identity, and what has changed since the last look.

Events only say where to look; this module says what is true. A full scan compares every file by ``stat``; a hinted
one only the named paths. Directories are visited once by identity, so that overlapping roots and symbolic links (and
loops of them) give each directory one path: the real one before a linked one, in the order of the roots. Links that lead
out of the roots are not followed unless asked for, and there is a bound on files and on depth.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import re
import stat as modes
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from engine.core.reading import Problem
from engine.live.files.opening import below, canonical, inside, relative
from engine.live.options import LiveSettings

Stat = tuple[int, int, int, int, int]  # device, inode, size, mtime (ns), ctime (ns)

_STEP = 128  # directory entries after which a scan asks whether to end early

MANY = 2000  # hints above which everything is scanned

_SUFFIXES = (".tmp", ".part", "~", "_tmp", ".crc")
_TOOLS = frozenset({".git", ".hg", ".svn", ".venv", ".cache", ".snapshot", ".zfs", ".Trash"})
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR})


MANIFEST, TABLE = "manifest", "table="
"""A folder ``manifest`` stands for the folders ``table=NAME`` beside it: Parquet tables that are asked for rows, never read as
files (docs/fleet.md)."""


def _without_tables(folders: set[str]) -> set[str]:
    return {name for name in folders if not name.startswith(TABLE)} if MANIFEST in folders else folders


class Names:
    """Which names are left out: scratch files of others, and what matches the patterns ``ignore``."""

    def __init__(self, ignore: Sequence[str]) -> None:
        pattern = "|".join(fnmatch.translate(text) for text in ignore)
        self._ignore = re.compile(pattern) if pattern else None

    def _unwanted(self, name: str) -> bool:
        return self._ignore is not None and self._ignore.match(name) is not None

    def ignored(self, name: str) -> bool:
        """Whether files of this name are left out: dot files, temporary and checksum files."""
        return name.startswith(".") or name.endswith(_SUFFIXES) or self._unwanted(name)

    def ignored_folder(self, name: str) -> bool:
        """Whether directories of this name are left out, with all below them: scratch or a tool's own.

        A leading dot alone is not enough: the histories of running Hadoop jobs lie in ``.staging``.
        """
        return name in _TOOLS or name.endswith(_SUFFIXES) or self._unwanted(name)


def stat_of(status: os.stat_result) -> Stat:
    """Return what tells a file from one that took its place, and from itself after a change."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class _Interrupted(Exception):
    """A scan that ends early."""


class Folder(msgspec.Struct):
    """One directory as last seen: its identity and the files and directories in it by name. ``tables``: whether it has
    folders ``table=NAME``."""

    path: str
    root: int
    identity: tuple[int, int]
    files: dict[str, Stat] = msgspec.field(default_factory=dict)
    folders: set[str] = msgspec.field(default_factory=set)
    links: set[str] = msgspec.field(default_factory=set)
    tables: bool = False


def of_writer(folders: Mapping[str, Folder], path: str, name: str) -> bool:
    """Whether ``name`` in the folder ``path`` is Spark's own beside the manifest of a fleet result: ``_SUCCESS`` and such."""
    if not name.startswith("_") or os.path.basename(path) != MANIFEST:
        return False
    above = folders.get(os.path.dirname(path))
    return above is not None and above.tables


class Changes(msgspec.Struct):
    """What a look found: paths that are new or have another stat, and paths that are gone."""

    changed: dict[str, Stat] = msgspec.field(default_factory=dict)
    gone: set[str] = msgspec.field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone)


class LeftOut(msgspec.Struct):
    """What one scan left out: links out of each root (and the first of them), folders too deep, files beyond the limit."""

    links: dict[int, tuple[int, str]] = msgspec.field(default_factory=dict)
    deep: str = ""
    files: int = 0
    full: bool = False

    def problems(self, roots: Sequence[str], settings: LiveSettings) -> dict[str, Problem]:
        """Return one problem per reason, under keys that no path has."""
        found = {}
        for number, (count, first) in self.links.items():
            what = f"{count} symbolic links lead" if count > 1 else "a symbolic link leads"
            reason = f"{what} elsewhere and is not followed (follow-symlinks): {first}"
            found[f"{roots[number]}\0links"] = Problem.at(roots[number], "link-not-followed", reason)
        limits = {
            f"{self.deep}\0deep": (bool(self.deep), self.deep, "too-deep",
                f"folders {settings.max_depth} below another and deeper are not looked at (max-depth)"),
            "\0files": (self.full, roots[0] if roots else "", "too-many-files",
                f"there are more than {settings.max_files:,} files: the rest is not looked at (max-files)"),
        }  # fmt: skip
        return found | {key: Problem.at(*given) for key, (reached, *given) in limits.items() if reached}


class Scanner:
    """Compares what is below ``roots`` (absolute paths) with the last look."""

    def __init__(self, roots: Sequence[str], settings: LiveSettings | None = None) -> None:
        self.roots = tuple(roots)
        self._settings = settings or LiveSettings()
        self.folders: dict[str, Folder] = {}
        self.singles: dict[str, Stat] = {}
        self.problems: dict[str, Problem] = {}
        self.skipped: dict[str, str] = {}
        self.root_identities: dict[str, tuple[int, int] | None] = dict.fromkeys(self.roots)
        self._aliases: dict[str, str] = {}
        self.complete = True
        self._interrupted: Callable[[], bool] | None = None
        self._names = Names(self._settings.ignore)
        self._real_roots: tuple[str, ...] = ()
        self._left_out = LeftOut()

    @property
    def count(self) -> int:
        """Number of regular files seen."""
        return len(self.singles) + sum(len(folder.files) for folder in self.folders.values())

    def stat_of(self, path: str) -> Stat | None:
        """Return the identity of the file at ``path`` as last seen, None if none was."""
        if path in self.singles:
            return self.singles[path]
        parent, name = os.path.split(path)
        folder = self.folders.get(parent)
        return folder.files.get(name) if folder is not None else None

    def root_of(self, path: str) -> int:
        """Return the index of the root under which ``path`` was found."""
        if path in self.singles:
            return self.roots.index(path)
        folder = self.folders.get(os.path.dirname(path))
        return folder.root if folder is not None else 0

    # -- full scan ---------------------------------------------------------------------------------------------

    def scan(self, interrupted: Callable[[], bool] | None = None) -> Changes:
        """Look everywhere. Returns what has changed.

        Ends early when ``interrupted`` returns True: then ``complete`` is False, the changes are true, and all other
        places are as they were at the last look.
        """
        before = (self.problems, self.skipped, self._aliases)
        changes = Changes()
        try:
            self._scan(changes, interrupted)
        except _Interrupted:
            self.complete = False
            problems, skipped, aliases = before
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
        self._real_roots = tuple(os.path.realpath(root) for root in self.roots)
        self._left_out = LeftOut()
        self.problems, self.skipped, self._aliases = {}, {}, {}
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
                    seen |= below(root, self.folders)
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
            changes.gone.update(os.path.join(path, name) for name in self.folders.pop(path).files)
        self.problems |= self._left_out.problems(self.roots, self._settings)

    def _single(self, root: str, status: os.stat_result, changes: Changes) -> None:
        stat = stat_of(status)
        if self.singles.get(root) != stat:
            self.singles[root] = changes.changed[root] = stat

    def _unreadable(self, path: str, error: OSError) -> None:
        self.problems[path] = Problem.at(path, "unreadable", f"{error.strerror or error}")

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
        deepest = self.roots[root].rstrip("/").count("/") + self._settings.max_depth
        while stack and not self._left_out.full:
            path = stack.pop()
            if path.count("/") > deepest:
                self._left_out.deep = self._left_out.deep or path
                continue
            try:
                status = os.stat(path)
                identity = (status.st_dev, status.st_ino)
                first = visited.get(identity)
                if first is not None:
                    if first != path:
                        self._aliases[path] = first
                    continue
                visited[identity] = path
                folder = self._list(path, root, identity, changes)
            except OSError as error:
                if error.errno not in _GONE:
                    # What was read from there stays; a problem says that it cannot be checked any more.
                    self._unreadable(path, error)
                    seen |= below(path, self.folders)
                continue
            seen.add(path)
            join = path.rstrip("/") + "/"
            stack.extend(sorted((join + name for name in folder.folders), reverse=True))
            linked.extend((join + name, root) for name in sorted(folder.links))

    def _list(self, path: str, root: int, identity: tuple[int, int], changes: Changes) -> Folder:
        """Compare one directory with its last listing. Raises OSError if it cannot be read."""
        folder = self.folders.get(path)
        if folder is None or folder.identity != identity:
            folder = Folder(path, root, identity, dict(folder.files if folder is not None else {}))
        folder.root = root
        files = folder.files
        present: list[str] = []
        folders, links = set[str](), set[str]()
        join = path.rstrip("/") + "/"
        with os.scandir(path) as entries:
            for count, entry in enumerate(entries):
                if not count % _STEP and self._interrupted is not None and self._interrupted():
                    self.folders[path] = folder  # with what was found so far
                    raise _Interrupted
                name = entry.name
                old = files.get(name)
                hidden = old is None and self._names.ignored(name)
                if of_writer(self.folders, path, name) or (hidden and self._names.ignored_folder(name)):
                    continue
                try:
                    kind = self._kind(entry, root)
                    if kind in ("folder", "link"):
                        (folders if kind == "folder" else links).add(name)
                    new = None if hidden else self._file(entry, kind)
                except OSError as error:
                    if self._entry_error(join + name, entry, error) and old is not None:
                        present.append(name)
                    continue
                if new is None:
                    continue
                if self._left_out.files >= self._settings.max_files:
                    self._left_out.full = True
                    break
                self._left_out.files += 1
                present.append(name)
                if new != old:
                    files[name] = new
                    changes.changed[join + name] = new
        for name in files.keys() - set(present) if len(present) != len(files) else ():
            del files[name]
            changes.gone.add(join + name)
        folder.folders, folder.links = _without_tables(folders), links
        folder.tables = any(name.startswith(TABLE) for name in folders)
        self.folders[path] = folder
        return folder

    def _kind(self, entry: os.DirEntry[str], root: int) -> str:
        """Return ``folder``, ``link`` (to a folder), ``file``, ``unwanted`` or ``other``. Raises OSError."""
        if entry.is_symlink():
            if not (self._settings.follow_symlinks or inside(os.path.realpath(entry.path), self._real_roots)):
                self._skip(entry.path, "link to elsewhere")
                count, first = self._left_out.links.get(root, (0, entry.path))
                self._left_out.links[root] = (count + 1, first)
                return "unwanted"
            return "link" if entry.is_dir() else "file"
        if entry.is_dir(follow_symlinks=False):
            return "folder"
        return "file" if entry.is_file(follow_symlinks=False) else "other"

    def _file(self, entry: os.DirEntry[str], kind: str) -> Stat | None:
        """Return the identity of a regular file, None for all else. Raises OSError."""
        if kind not in ("file", "other"):
            return None
        status = entry.stat(follow_symlinks=kind == "file")
        if modes.S_ISREG(status.st_mode):
            return stat_of(status)
        self._skip(entry.path, "not a regular file")
        return None

    def _entry_error(self, path: str, entry: os.DirEntry[str], error: OSError) -> bool:
        """Note why a directory entry cannot be looked at. Returns whether it is there nevertheless."""
        if error.errno in _GONE:
            self._skip(path, "broken link" if entry.is_symlink() else "gone")
        elif error.errno == errno.ELOOP:
            self._skip(path, "link to itself")
        else:
            self._unreadable(path, error)
            return True
        return False

    def _skip(self, path: str, reason: str) -> None:
        if len(self.skipped) < 1000:
            self.skipped[path] = reason

    # -- hints -------------------------------------------------------------------------------------------------

    def look(self, hints: Iterable[str]) -> Changes | None:
        """Look only at the named paths. Returns what has changed, None if that is not enough: scan everything."""
        changes = Changes()
        for count, hint in enumerate(sorted(set(hints))):
            if count > MANY or not self._hint(os.path.normpath(hint), changes):
                # The caller drops the changes noted so far: forget them, so that the scan finds them again.
                self._unsee(changes)
                return None
        changes.gone -= changes.changed.keys()
        return changes

    def _unsee(self, changes: Changes) -> None:
        unknown = (0, 0, -1, 0, 0)
        for path in changes.changed:
            parent, name = os.path.split(path)
            if path in self.singles:
                self.singles[path] = unknown
            elif parent in self.folders and name in self.folders[parent].files:
                self.folders[parent].files[name] = unknown
        for path in changes.gone:
            parent, name = os.path.split(path)
            self.folders.setdefault(parent, Folder(parent, 0, (0, 0))).files.setdefault(name, unknown)

    def _hint(self, path: str, changes: Changes) -> bool:
        """Compare one path with its last state. Returns False if that is not enough."""
        if path in self.root_identities:
            return self._hinted_root(path, changes)
        parent, name = os.path.split(path)
        folder = self.folders.get(parent)
        if folder is None:
            place = canonical(parent, self._aliases, self.folders)
            if place is None:
                # Below something ignored: nothing to do. Else below a directory that is new.
                parts = relative(path, self.roots).split("/")
                return any(self._names.ignored_folder(part) for part in parts) or self._arrived(parent, changes)
            folder = self.folders[place]
            path = os.path.join(place, name)
        scratch = of_writer(self.folders, folder.path, name) or self._names.ignored_folder(name)
        if scratch or (self._names.ignored(name) and not os.path.isdir(path)):
            return True
        try:
            status = os.lstat(path)
        except OSError as error:
            return error.errno in _GONE and self._vanished(folder, name, path, changes)
        if modes.S_ISLNK(status.st_mode):
            return False
        if not modes.S_ISREG(status.st_mode):
            return self._arrived(path, changes)
        if name in folder.folders or name in folder.links:
            return False
        new = stat_of(status)
        if self._left_out.full and name not in folder.files:
            return True
        if folder.files.get(name) != new:
            folder.files[name] = changes.changed[path] = new
            changes.gone.discard(path)
        return True

    def _hinted_root(self, path: str, changes: Changes) -> bool:
        """Compare a root that is a single file; a folder must be scanned."""
        if path not in self.singles:
            return False
        try:
            status = os.stat(path)
        except OSError:
            return False
        if modes.S_ISREG(status.st_mode):
            self._single(path, status, changes)
        return modes.S_ISREG(status.st_mode)

    def _arrived(self, path: str, changes: Changes) -> bool:
        """Walk a directory that is new, with all that is in it: events inside may have come before its watch.

        Returns False where everything must be scanned: links, other names of known directories, errors.
        """
        parent = os.path.dirname(path)
        while parent not in self.folders:
            path, parent = parent, os.path.dirname(parent)
            if path == parent:
                return False
        known, name = self.folders[parent], os.path.basename(path)
        known.tables = known.tables or name.startswith(TABLE)
        if of_writer(self.folders, parent, name) or name not in _without_tables({*known.folders, name}):
            return True
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


def absolute(roots: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Return each of ``roots`` once, as an absolute path."""
    return tuple(dict.fromkeys(os.path.abspath(os.path.expanduser(root)) for root in roots))


class FirstScan:
    """What is below ``roots`` now. ``changes`` holds every file, ``size`` their bytes on disk."""

    def __init__(self, roots: Sequence[str | os.PathLike[str]], settings: LiveSettings) -> None:
        self.roots = absolute(roots)
        self.scanner = Scanner(self.roots, settings)
        self.changes: Changes = self.scanner.scan()
        self.size = sum(stat[2] for stat in self.changes.changed.values())
