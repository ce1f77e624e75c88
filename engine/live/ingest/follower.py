"""Follow one file: which readers take it, what to read again when it has changed, and whether it is the compressed copy of
another (its rows must not count twice)."""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Literal

import msgspec

from engine.core.compression import PACKED, TooBig, group_of, stem
from engine.core.reading import HEAD, FileKind, Problem, clean
from engine.live.files.opening import NotRegular, Open, RegularFile, label
from engine.live.files.tracked_file import ReaderState, TrackedFile
from engine.live.ingest.file_content import MARK, Content, fingerprint
from engine.live.ingest.readers import DocumentReader, LogReader
from engine.live.ingest.registry import Recogniser, Registry
from engine.live.options import LiveSettings
from engine.live.store import Store

assert HEAD >= MARK


class CompressedTwins:
    """Groups files by folder and bare name: files of one group may be copies of each other."""

    def __init__(self, settings: LiveSettings, open_file: Open) -> None:
        self.settings = settings
        self._open = open_file
        self.groups: dict[tuple[str, str], set[TrackedFile]] = {}

    def place(self, file: TrackedFile, path: str, root: str) -> None:
        """Read ``file`` by this path from now on; its rows stay."""
        if path == file.path:
            return
        self.leave(file)
        file.path, file.root, file.group = path, root, group_of(path)
        file.shown, file.label = clean(path, 4096), label(path, root)
        self.groups.setdefault(file.group, set()).add(file)

    def leave(self, file: TrackedFile) -> None:
        """Take ``file`` out of its group."""
        members = self.groups.get(file.group)
        if members is not None:
            members.discard(file)
            if not members:
                del self.groups[file.group]

    def packed(self, file: TrackedFile) -> list[TrackedFile]:
        """Return the compressed files that may be copies of this one."""
        members = self.groups.get(file.group, set())
        return [other for other in members if other is not file and (other.packing or other.path.endswith(PACKED))]

    def alone(self, file: TrackedFile) -> bool:
        """Whether no other file can be a copy of this one."""
        return len(self.groups[file.group]) == 1

    def is_copy(self, file: TrackedFile, content: Content) -> bool:
        """Whether this compressed file is a copy of a file beside it that is read already (rotation with compression)."""
        if not content.packing:
            return False
        head: bytes | None = None
        for other in sorted(self.groups.get(file.group, set()) - {file}, key=lambda other: other.path):
            if other.is_copy or (other.packing and other.path > file.path):
                continue
            if head is None:
                head = content.head()
            if head and self._holds(other, file, content, head):
                file.reason = f"packed copy of {clean(os.path.basename(other.path), 200)}"
                return True
        return False

    def _holds(self, other: TrackedFile, file: TrackedFile, content: Content, head: bytes) -> bool:
        limit = self.settings.max_unpacked_mb << 20
        try:
            with Content(other.path, max_unpacked=limit, max_document=limit, open_file=self._open) as beside:
                if beside.head()[: len(head)] != head:
                    return False
                length, tail = self._unpacked_size(file, content)
                if not beside.packing:
                    return beside.size >= length and beside.raw(length - len(tail), len(tail)) == tail
                return self._unpacked_size(other, beside) == (length, tail)
        except (OSError, TooBig):
            return False

    @staticmethod
    def _unpacked_size(file: TrackedFile, content: Content) -> tuple[int, bytes]:
        """Return the unpacked length and the last bytes of a compressed file."""
        status = content.status
        stat = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if file.unpacked_size is None or file.stat != stat:
            length, tail = 0, b""
            for block in content.blocks(0):
                length += len(block)
                tail = (tail + block[-MARK:])[-MARK:]
            file.unpacked_size = (length, tail)
        return file.unpacked_size


log = logging.getLogger(__name__)

RACY_S = 2.0
"""Seconds after its modification (or before it, where a server's clock is ahead) during which a file is looked at once more: a
write within the same tick of the file system's clock leaves no trace in its modification time."""
Verify = Literal["restart", "whole", "marks"]
_VERIFY_WHOLE = 16 << 20
"""Bytes up to which a file is compared whole rather than by fingerprints of its beginning and end."""


class _Seen(msgspec.Struct, frozen=True):
    """A file at one look.

    ``stat``: size, mtime and ctime; ``at``: monotonic time (s); ``final``: nothing will follow; ``quiet``: it has settled;
    ``same``: it is as at the last look; ``same_head``: it begins with the same bytes; ``verify``: which of the bytes that were
    read must be proven unchanged.
    """

    stat: tuple[int, int, int]
    at: float
    final: bool
    quiet: bool
    same: bool
    same_head: bool
    verify: Verify


class Follower:
    """Reads files into stores. Depends on the views' readers, not on directories or threads."""

    def __init__(
        self,
        kinds: Sequence[tuple[str, FileKind]],
        stores: dict[str, Store],
        settings: LiveSettings,
        roots: Sequence[str],
        now_ms: Callable[[], int],
        *,
        strict: bool = False,
        open_file: Open | None = None,
    ) -> None:
        """``roots``: what is watched; files elsewhere are read only where ``settings`` follow links. ``open_file``: opens a file
        (default: one below the roots)."""
        self._open = open_file or partial(RegularFile, roots=() if settings.follow_symlinks else roots)
        self.recogniser = Recogniser(kinds, strict=strict)
        self.registry = Registry(stores, self.recogniser)
        self.twins = CompressedTwins(settings, self._open)
        self.settings = settings
        self.now_ms = now_ms
        self.bytes_read = 0
        self._logs = LogReader(self.registry)
        self._documents = DocumentReader(self.registry)

    def admit(self, view: str, kinds: Iterable[FileKind], store: Store) -> None:
        """Add a view with its readers and its store."""
        self.recogniser.kinds = (*self.recogniser.kinds, *((view, kind) for kind in kinds))
        self.registry.admit(view, store)

    def quiet_in(self, file: TrackedFile, now: float) -> float:
        """Return the seconds until ``file`` counts as settled, 0 when it does."""
        assert file.seen_stat is not None
        still = max(self.now_ms() / 1000 - file.seen_stat[1] / 1e9, now - file.seen_at)
        return max(0.0, self.settings.settle_s - still)

    def visit(
        self,
        file: TrackedFile,
        *,
        final: bool = False,
        force: bool = False,
        at_most: int | None = None,
    ) -> bool:
        """Update the stores from one file. Never raises for what is on disk.

        ``final``: nothing will follow; ``force``: visited only because a sibling changed.
        Returns False if a reader would have to be given more than ``at_most`` bytes: then nothing is
        read, and another process has to do it.
        """
        due, file.due = file.due, None
        unpacked, document = self.settings.max_unpacked_mb << 20, self.settings.max_file_mb << 20
        try:
            content = Content(file.path, max_unpacked=unpacked, max_document=document, open_file=self._open)
        except NotRegular as error:
            self.registry.release_all(file)
            file.reason = str(error)
            return self._later(file)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):  # else gone since the scan: the next one will say so
                self._unreadable(file, error)
            return True
        with content:
            status = content.status
            if (status.st_dev, status.st_ino) != file.identity:
                return self._later(file)  # replaced since the scan
            try:
                seen = self._see(file, content, final, force, due)
                if seen is not None and not self._visit(file, content, seen, at_most):
                    return False
            except OSError as error:
                self._unreadable(file, error)
            finally:
                self.bytes_read += content.bytes_read
        return True

    def _unreadable(self, file: TrackedFile, error: OSError) -> None:
        before = file.problems
        file.problems = (Problem.at(file.path, "unreadable", error.strerror or str(error)),)
        file.reason = "unreadable"
        self._later(file)
        self.registry.mark_stale(file)
        if file.problems != before:
            self.registry.touched.update(file.views(self.registry.stores))

    def _later(self, file: TrackedFile) -> Literal[True]:
        """Let ``file`` be visited again, even if the next scan finds it as the last one did."""
        file.due = time.monotonic() + max(self.settings.scan_interval_s, 0.05)
        file.stat = None
        return True

    def give_up(self, file: TrackedFile, problem: Problem) -> None:
        """Note that ``file`` cannot be read. Its earlier rows stay, marked stale; it is tried again when it changes."""
        file.problems = (problem,)
        file.stat, file.given_up = None, file.seen_stat
        self.registry.mark_stale(file)
        self.registry.touched.update(file.views(self.registry.stores))

    def failed(self, file: TrackedFile, error: BaseException) -> None:
        """Give up ``file`` because of a bug in this program. Raises the error if strict."""
        if self.recogniser.strict:
            raise error
        log.error("%s: following failed", file.shown, exc_info=error)
        reason = f"following it failed ({type(error).__name__}: {error}): please report"
        self.give_up(file, Problem.at(file.path, "internal-error", reason))
        file.given_up = None

    def _see(self, file: TrackedFile, content: Content, final: bool, force: bool, due: float | None) -> _Seen | None:
        """Compare the file with the last look. Returns None if there is nothing to read; ``due`` is then kept."""
        now = time.monotonic()
        status = content.status
        stat = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if stat == file.given_up:
            return None
        if stat != file.seen_stat:
            file.seen_stat, file.seen_at = stat, now
        quiet = final or self.quiet_in(file, now) == 0.0
        same = stat == file.stat and file.path == file.read_path
        length = file.head_length
        rewritten = length >= 0 and (
            len(content.raw_head) < length or fingerprint(content.raw_head[:length]) != file.head_mark
        )
        file.packing = content.packing = content.packing if content.raw_head else ""
        same_head = same and len(content.raw_head) == file.head_length
        if self.twins.is_copy(file, content):
            if not file.is_copy:
                self.registry.release_all(file)
            file.is_copy, file.stat, file.read_path = True, stat, file.path
            self._mark_head(file, content)
            return None
        if file.is_copy:
            file.is_copy, same, same_head = False, False, False
        elif force and same and not file.verify and file.stat is not None and not any(r.rest for r in file.readers):
            file.due = due
            return None
        return _Seen(stat, now, final, quiet, same, same_head and not rewritten, self._verify(file, stat, rewritten))

    def _visit(self, file: TrackedFile, content: Content, seen: _Seen, at_most: int | None) -> bool:
        """Read what is new. Returns False if it is more than ``at_most``."""
        before, file.problems = file.problems, ()
        if not seen.same_head or not file.readers or any(reader.retained for reader in file.readers):
            self._recognise(file, content, seen.quiet)
            file.head_problems, file.problems = file.problems, ()
        self._mark_head(file, content)
        if at_most is not None and self._exceeds(file, content, seen, at_most):
            file.problems = before
            return False
        waiting = self._read(file, content, seen)
        waiting |= self._damaged(file, content, seen.quiet)
        file.problems = (*file.head_problems, *file.problems)
        if file.problems != before:
            self.registry.touched.update(file.views(self.registry.stores))
        age = self.now_ms() / 1000 - seen.stat[1] / 1e9
        file.stat, file.read_path, file.verify = seen.stat, file.path, abs(age) < RACY_S and bool(file.readers)
        if not seen.final:
            if waiting and not seen.quiet:
                file.due = seen.at + max(0.005, self.quiet_in(file, seen.at))
            if file.verify:
                file.due = seen.at + RACY_S - age if file.due is None else min(file.due, seen.at + RACY_S - age)
        return True

    def _exceeds(self, file: TrackedFile, content: Content, seen: _Seen, at_most: int) -> bool:
        """Whether a reader of the file would be given more than ``at_most`` bytes, or unpacks the file by itself."""
        for reader in file.readers:
            begin = 0
            if reader.kind.append and reader.consumed and not content.packing:
                begin = 0 if self._logs.rewritten(reader, content, seen.verify) else reader.consumed
            try:
                if not reader.retained and (getattr(reader.kind, "unpacks", False) or content.exceeds(begin, at_most)):
                    return True
            except TooBig:
                return False  # which costs nothing to find out again
        return False

    def _read(self, file: TrackedFile, content: Content, seen: _Seen) -> bool:
        """Have every reader of the file read new content. Returns whether one waits for more."""
        waiting = False
        for reader in list(file.readers):
            if reader.retained:
                reader.stale, waiting = True, True
                self.registry.describe(file, reader, changed=False)
                continue
            try:
                if reader.kind.append:
                    waiting |= self._logs.read(
                        file, reader, content, quiet=seen.quiet, same=seen.same, verify=seen.verify
                    )
                else:
                    waiting |= self._documents.read(file, reader, content, quiet=seen.quiet)
            except TooBig as error:
                self.registry.refuse(file, reader, str(error))
            self.registry.note_problems(reader)
        return waiting

    @staticmethod
    def _mark_head(file: TrackedFile, content: Content) -> None:
        file.head_length = len(content.raw_head)
        file.head_mark = fingerprint(content.raw_head)

    @staticmethod
    def _verify(file: TrackedFile, stat: tuple[int, int, int], rewritten: bool) -> Verify:
        """Return which of the bytes that were read must be proven unchanged: all, or the fingerprints at both ends."""
        if rewritten:
            return "restart"
        if file.stat is not None and stat[0] == file.stat[0] and stat != file.stat:
            # Touched, renamed, linked, restored or rewritten in place: sizes do not tell.
            if stat[1] != file.stat[1] or stat[0] <= _VERIFY_WHOLE:
                return "whole"
        elif file.verify and stat == file.stat and stat[0] <= _VERIFY_WHOLE:
            return "whole"
        return "marks"

    def _recognise(self, file: TrackedFile, content: Content, quiet: bool) -> None:
        head = content.head()
        name = stem(file.path.rpartition("/")[2], content.packing)
        existing = {(reader.view, reader.kind.id): reader for reader in file.readers}
        readers = []
        for view, kind, known_as in self.recogniser.readers(file, name, head):
            reader = existing.pop((view, kind.id), None)
            if reader is None:
                reader = ReaderState(view, kind, known_as)
            elif reader.name != known_as:
                reader.name = known_as
                reader.tried_final = False
                if not kind.append:
                    reader.digest = None
            reader.retained = False
            readers.append(reader)
        for reader in existing.values():
            # Where files are replaced by renaming, a freed inode soon belongs to another file: those rows are not its own.
            own = reader.info is not None and reader.info.path == file.shown
            if not reader.kind.append and not quiet and own:
                reader.retained = True
                readers.append(reader)  # being rewritten: its last good rows stay until it has settled
            else:
                self.registry.release(reader)
        file.readers = readers
        file.reason = "" if readers else (self.recogniser.nearest(head) if head else "empty")

    def _damaged(self, file: TrackedFile, content: Content, quiet: bool) -> bool:
        """Note damage of compressed content. Returns whether only the end may be missing so far."""
        if content.damage is not None or content.unpacked_all:
            file.damage = content.damage
        damage = file.damage if content.packing else None
        if damage is None:
            return False
        if damage.cut and not quiet:
            return True
        if damage.cut and file.readers and all(getattr(reader.kind, "ends_cut", False) for reader in file.readers):
            return False
        kind = "cut-file" if damage.cut else "damaged-archive"
        file.problems = (*file.problems, Problem.at(file.path, kind, str(damage)))
        return False
