"""Following one file: what it is to which readers, what of it has been read, and what to do when it changed."""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import polars as pl
import xxhash

from engine.inputs import FileInfo
from engine.live.files.compressed_twins import Copies
from engine.live.files.file_index import Ledger
from engine.live.files.tracked_file import Feed, File, bounded, copied, file_failed
from engine.live.ingest import file_content
from engine.live.ingest.file_content import MARK, MAX_RECORD, Content, NotRegular, fingerprint
from engine.live.ingest.recognise import Recogniser
from engine.live.ingest.unpack import TooBig, stem
from engine.live.options import LiveSettings
from engine.live.store import BadRows, Store
from engine.problems import Problem
from engine.reading import FileKind, Reading, Source

log = logging.getLogger(__name__)

RACY_S = 2.0
"""A file modified so recently when it was read is looked at once more: a write within the same tick of the file
system's clock leaves no trace in its modification time."""
_VERIFY_WHOLE = 16 << 20


Rear = Callable[[File, Feed, Content], tuple[int, Callable[[Feed, Content], bool]] | None]
"""Of a file whose rear part another process reads: at which byte that is due, and how to take it then."""


class Follower:
    """Reads files into stores. Knows the views' readers, nothing of directories or threads."""

    def __init__(
        self,
        kinds: Sequence[tuple[str, FileKind]],
        stores: dict[str, Store],
        settings: LiveSettings,
        now_ms: Callable[[], int],
        *,
        strict: bool = False,
    ) -> None:
        self.recogniser = Recogniser(kinds, strict=strict)
        self.copies = Copies(settings)
        self.stores = stores
        self.settings = settings
        self.now_ms = now_ms
        self.strict = strict
        self.versions = dict.fromkeys(stores, 0)
        self.touched: set[str] = set()
        self.feeds: dict[str, dict[int, Feed]] = {name: {} for name in stores}
        self.infos: dict[str, Ledger] = {name: Ledger() for name in stores}
        self.troubled: dict[str, set[Feed]] = {name: set() for name in stores}
        self.bytes_read = 0
        self.rear: Rear | None = None
        self._ids = 0

    def admit(self, view: str, kinds: Iterable[FileKind], store: Store) -> None:
        """One more view with its readers and its store."""
        self.recogniser.kinds = (*self.recogniser.kinds, *((view, kind) for kind in kinds))
        self.stores[view] = store
        self.versions[view] = 0
        self.feeds[view], self.infos[view], self.troubled[view] = {}, Ledger(), set()

    # -- feeds -------------------------------------------------------------------------------------------------

    def drop(self, file: File) -> None:
        """Forget everything that was read of ``file``."""
        for feed in file.feeds:
            self._drop_feed(feed)
        file.feeds = []
        file.problems = ()

    def inherit(self, file: File, old: File) -> None:
        """``file`` has replaced ``old`` at its path: documents keep their last good rows until it has been read."""
        documents = [feed for feed in old.feeds if not feed.kind.append]
        old.feeds = [feed for feed in old.feeds if feed.kind.append]
        taken = {(feed.view, feed.kind.id) for feed in file.feeds}
        for feed in documents:
            if (feed.view, feed.kind.id) in taken:
                self._drop_feed(feed)
            else:
                file.feeds.append(feed)

    def _drop_feed(self, feed: Feed) -> None:
        if feed.id:
            self.stores[feed.view].forget([feed.id])
            self.feeds[feed.view].pop(feed.id, None)
            self.infos[feed.view].drop(feed.id)
        self.troubled[feed.view].discard(feed)
        self.touched.add(feed.view)

    def _new_id(self, feed: Feed) -> None:
        if feed.id:
            self._drop_feed(feed)
        self._ids += 1
        feed.id = self._ids
        self.feeds[feed.view][feed.id] = feed

    @property
    def last_id(self) -> int:
        """The highest id given."""
        return self._ids

    def go_on_from(self, number: int) -> None:
        """Give the ids behind ``number`` next. They must not have been given."""
        self._ids = number

    def adopt(self, feed: Feed) -> None:
        """Give a feed made elsewhere (from the cache) its id."""
        self._new_id(feed)

    # -- visiting ----------------------------------------------------------------------------------------------

    def quiet_in(self, file: File, now: float) -> float:
        """Seconds until ``file`` counts as finished for now; 0 when it does."""
        assert file.noted is not None
        still = max(self.now_ms() / 1000 - file.noted[1] / 1e9, now - file.noted_at)
        return max(0.0, self.settings.settle_s - still)

    def visit(self, file: File, *, final: bool = False, force: bool = False) -> None:
        """Bring the stores up to date with one file. Never raises for what is on disk."""
        due, file.due = file.due, None
        limits = {
            "max_unpacked": self.settings.max_unpacked_mb << 20,
            "max_document": self.settings.max_file_mb << 20,
        }
        try:
            content = Content(file.path, eager=file.stat is None, **limits)
        except NotRegular:
            self.drop(file)
            file.reason = "not a regular file"
            return
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                return  # gone since the scan: the next one will say so
            self._unreadable(file, error)
            return
        with content:
            status = content.status
            if (status.st_dev, status.st_ino) != file.identity:
                return  # replaced since the scan
            try:
                if not self._visit(file, content, final, force):
                    file.due = due
            except OSError as error:
                self._unreadable(file, error)
            finally:
                self.bytes_read += content.bytes_read

    def _unreadable(self, file: File, error: OSError) -> None:
        before = file.problems
        file.problems = (Problem.at(file.path, "unreadable", error.strerror or str(error)),)
        file.reason = "unreadable"
        file.due = time.monotonic() + max(self.settings.scan_interval_s, 0.05)
        file.stat = None
        for feed in file.feeds:
            feed.stale = True
            self._describe(file, feed, changed=False)
        if file.problems != before:
            self.touched.update((feed.view for feed in file.feeds) if file.feeds else self.stores)

    def give_up(self, file: File, error: BaseException) -> None:
        """Note that visiting ``file`` went wrong by a mistake of this program; what was read of it stays, marked stale, and
        its next change is another try. Raises the error if strict."""
        if self.strict:
            raise error
        log.error("%s: following failed", file.shown, exc_info=error)
        reason = f"following it failed ({type(error).__name__}: {error}): please report"
        file.problems = (Problem.at(file.path, "internal-error", reason),)
        file.stat = None
        for feed in file.feeds:
            feed.stale = True
            self._describe(file, feed, changed=False)
        self.touched.update((feed.view for feed in file.feeds) if file.feeds else self.stores)

    def _visit(self, file: File, content: Content, final: bool, force: bool) -> bool:
        """Read what is new. Returns False if there was nothing to look at: what was due stays due."""
        now = time.monotonic()
        status = content.status
        stat = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if stat != file.noted:
            file.noted, file.noted_at = stat, now
        quiet = final or self.quiet_in(file, now) == 0.0
        same = stat == file.stat and file.path == file.read_path
        length = len(content.raw_head)
        known = file.head_length
        rewritten = known >= 0 and (length < known or fingerprint(content.raw_head[:known]) != file.head_mark)
        content.packing = content.packing if length else ""
        file.packing = content.packing
        if self.copies.is_copy(file, content):
            if not file.twin:
                self.drop(file)
            file.twin, file.stat, file.read_path = True, stat, file.path
            self._mark_head(file, content)
            return True
        if file.twin:
            file.twin, same = False, False
            known = -1
        elif force and same and not file.verify and file.stat is not None and not any(f.rest for f in file.feeds):
            return False
        before, file.problems = file.problems, ()
        if not (same and length == known) or rewritten or not file.feeds or any(feed.held for feed in file.feeds):
            self._recognise(file, content, quiet)
            file.head_problems, file.problems = file.problems, ()
        verify = self._verify(file, stat, rewritten)
        waiting = False
        for feed in list(file.feeds):
            if feed.held:
                feed.stale, waiting = True, True
                self._describe(file, feed, changed=False)
                continue
            try:
                if feed.kind.append:
                    waiting |= self._read_log(file, feed, content, quiet, same, verify)
                else:
                    waiting |= self._read_document(file, feed, content, quiet)
            except TooBig as error:
                self._refuse(file, feed, str(error))
            self.note(feed)
        waiting |= self._damaged(file, content, quiet)
        file.problems = (*file.head_problems, *file.problems)
        if file.problems != before:
            self.touched.update((feed.view for feed in file.feeds) if file.feeds else self.stores)
        self._mark_head(file, content)
        racy = 0 <= self.now_ms() / 1000 - stat[1] / 1e9 < RACY_S
        file.stat, file.read_path, file.verify = stat, file.path, racy and bool(file.feeds)
        if final:
            return True
        if waiting and not quiet:
            file.due = now + max(0.005, self.quiet_in(file, now))
        if racy and file.feeds:
            later = now + RACY_S - (self.now_ms() / 1000 - stat[1] / 1e9)
            file.due = later if file.due is None else min(file.due, later)
        return True

    def _mark_head(self, file: File, content: Content) -> None:
        file.head_length = len(content.raw_head)
        file.head_mark = fingerprint(content.raw_head)

    @staticmethod
    def _verify(file: File, stat: tuple[int, int, int], rewritten: bool) -> str:
        """How much of what was read must be proven unchanged: ``marks`` or ``whole``."""
        if rewritten:
            return "restart"
        if file.stat is not None and stat[0] == file.stat[0] and stat != file.stat:
            # Touched, renamed, linked, restored or rewritten in place: sizes do not tell.
            if stat[1] != file.stat[1] or stat[0] <= _VERIFY_WHOLE:
                return "whole"
        elif file.verify and stat == file.stat and stat[0] <= _VERIFY_WHOLE:
            return "whole"
        return "marks"

    # -- recognition -------------------------------------------------------------------------------------------

    def _recognise(self, file: File, content: Content, quiet: bool) -> None:
        head = content.head()
        name = stem(file.path.rpartition("/")[2], content.packing)
        found = self.recogniser.readers(file, name, head)
        existing = {(feed.view, feed.kind.id): feed for feed in file.feeds}
        feeds = []
        for view, kind, known_as in found:
            feed = existing.pop((view, kind.id), None)
            if feed is None:
                feed = Feed(view, kind, known_as)
            elif feed.name != known_as:
                feed.name = known_as
                feed.tried_final = False
                if not kind.append:
                    feed.digest = None
            feed.held = False
            feeds.append(feed)
        for feed in existing.values():
            # Where files are replaced by renaming, a freed inode soon belongs to another file: those rows are not its own.
            own = feed.info is not None and feed.info.path == file.shown
            if not feed.kind.append and not quiet and own:
                feed.held = True
                feeds.append(feed)  # being rewritten: its last good rows stay until it has settled
            else:
                self._drop_feed(feed)
        file.feeds = feeds
        file.reason = "" if feeds else ("not recognised" if head else "empty")

    # -- logs --------------------------------------------------------------------------------------------------

    def _read_log(self, file: File, feed: Feed, content: Content, quiet: bool, same: bool, verify: str) -> bool:
        """Read what is new of a growing file. Returns whether something is left that waits for more."""
        store = self.stores[feed.view]
        if feed.consumed and self._rewritten(feed, content, verify):
            self._restart(feed)
        elif feed.id and same and (feed.provisional or not feed.rest or not quiet) and not feed.stale:
            return feed.rest and not feed.provisional
        elif feed.consumed and feed.hasher is None and not self._proven(feed, content):
            self._restart(feed)
        changed = not feed.id
        if not feed.id:
            self._new_id(feed)
            feed.hasher = xxhash.xxh3_64()
        if feed.provisional:
            store.forget_provisional(feed.id)
            feed.provisional = False
            changed = True
        if feed.late:
            feed.late = ()
            changed = True
        feed.stale = False
        carry = b""
        at, take = (self.rear(file, feed, content) if self.rear is not None and not content.streamed else None) or (
            0,
            None,
        )
        for until in (at, content.size) if take is not None else (content.size,):
            for data in self._pieces(feed, content, until):
                answer = self._call(file, feed, content, data, feed.state, False)
                if answer is None:
                    feed.stale = True
                    carry = b""
                    break
                reading, count = answer
                used = reading.consumed
                if used:
                    changed = True
                    store.put(feed.id, reading.rows, count)
                    feed.state = reading.state
                    feed.problems = bounded(file, (*feed.problems, *reading.problems))
                    self._advance(feed, data, used)
                carry = data[used:] if used else data
                if store.gathered > 500_000:
                    self.flush(feed.view)
            if feed.stale:
                break
            if take is not None and feed.consumed == at and take(feed, content):
                changed = True
                feed.problems = bounded(file, feed.problems)
        feed.rest = bool(carry)
        if carry and quiet and content.damage is None:
            answer = self._call(file, feed, content, carry, copied(feed.state), True)
            feed.provisional = True
            changed = True
            if answer is not None:
                reading, count = answer
                store.put(feed.id, reading.rows, count, provisional=True)
                feed.late = bounded(file, tuple(reading.problems))
        self._describe(file, feed, changed=changed, content=content)
        return feed.rest and not feed.provisional

    @staticmethod
    def _pieces(feed: Feed, content: Content, until: int) -> Iterator[bytes]:
        """What is new up to byte ``until``, block by block, each from where the reader has come to meanwhile. Raises
        TooBig."""
        if content.streamed:
            carry = b""
            for block in content.blocks(feed.consumed):
                data = carry + block if carry else block
                before = feed.consumed
                yield data
                carry = data[feed.consumed - before :]
                if len(carry) > MAX_RECORD:
                    raise TooBig(f"no complete record in {MAX_RECORD >> 20} MB")
            return
        length = file_content.BLOCK
        while feed.consumed < until:
            before = feed.consumed
            data = content.piece(before, min(length, until - before))
            if not data:
                return
            yield data
            if before + len(data) >= until:
                return
            if feed.consumed > before:
                length = file_content.BLOCK
            elif length > MAX_RECORD:
                raise TooBig(f"no complete record in {MAX_RECORD >> 20} MB")
            else:
                length *= 2

    def _rewritten(self, feed: Feed, content: Content, verify: str) -> bool:
        if verify == "restart":
            return True
        if content.packing or verify == "whole":
            if not content.packing and content.size < feed.consumed:
                return True
            digest = feed.hasher.intdigest() if feed.hasher is not None else feed.digest
            return digest is None or content.prefix(feed.consumed) != (digest, feed.consumed)
        return content.size < feed.consumed or content.mark(feed.consumed) != feed.mark

    @staticmethod
    def _proven(feed: Feed, content: Content) -> bool:
        """Hash what an earlier process read of this file, so that hashing can go on; False if it is not the same."""
        hasher = xxhash.xxh3_64()
        left = feed.consumed
        for block in content.blocks(0):
            part = block if len(block) <= left else block[:left]
            hasher.update(part)
            left -= len(part)
            if not left:
                break
        if left or hasher.intdigest() != feed.digest:
            return False
        feed.hasher = hasher
        return True

    def _restart(self, feed: Feed) -> None:
        self._drop_feed(feed)
        fresh = Feed(feed.view, feed.kind, feed.name)
        for name in ("id", "consumed", "state", "mark", "hasher", "digest", "problems", "late", "provisional", "rest"):
            setattr(feed, name, getattr(fresh, name))
        feed.info = None

    @staticmethod
    def _advance(feed: Feed, data: bytes, used: int) -> None:
        if feed.hasher is not None:
            feed.hasher.update(data if used == len(data) else memoryview(data)[:used])
        feed.digest = None
        if used >= MARK or feed.consumed == 0:
            feed.mark = fingerprint(data[max(0, used - MARK) : used])
        else:
            feed.mark = -1  # spans the earlier part: taken from the file when it is described
        feed.consumed += used

    # -- documents ---------------------------------------------------------------------------------------------

    def _read_document(self, file: File, feed: Feed, content: Content, quiet: bool) -> bool:
        """Read a whole file anew if it differs. Returns whether it does not parse yet."""
        data = content.whole()
        digest = fingerprint(data)
        ended = content.damage is None and data.endswith(b"\n")
        if digest == feed.digest and (feed.tried_final or not quiet or not feed.rest) and not file_failed(feed):
            moved = file.read_path not in ("", file.path) or (feed.info is not None and feed.info.path != file.shown)
            if not moved:
                if feed.info is not None and not feed.rest:
                    feed.stale = False
                self._describe(file, feed, changed=False, content=content)
                return feed.rest and not feed.tried_final
        answer = self._call(file, feed, content, data, None, quiet)
        feed.digest = digest
        feed.tried_final = quiet
        feed.late = ()
        if answer is None:
            feed.stale, feed.rest = True, False
        elif (reading := answer[0]).complete:
            self._new_id(feed)
            feed.info = None
            feed.stale, feed.late = False, ()
            feed.problems = bounded(file, tuple(reading.problems))
            self.stores[feed.view].put(feed.id, reading.rows, answer[1])
            feed.consumed = len(data)
            feed.rest = not ended and not quiet and not getattr(feed.kind, "closes", False)
            self._describe(file, feed, changed=True, content=content)
            return feed.rest
        else:
            feed.stale, feed.rest = True, True
            if feed.info is not None and feed.info.path != file.shown and content.size != feed.info.size:
                self._restart(feed)  # another file that was given the same inode: those rows are not its last good ones
                feed.digest, feed.tried_final, feed.stale, feed.rest = digest, quiet, True, True
            if quiet:
                incomplete = Problem.at(file.path, "incomplete", "does not parse: the last good version is shown")
                if feed.info is None:
                    incomplete = Problem.at(file.path, "incomplete", "does not parse")
                feed.late = bounded(file, (*reading.problems, *(() if reading.problems else (incomplete,))))
        self._describe(file, feed, changed=False, content=content)
        self.touched.add(feed.view)
        if feed.id == 0 and feed.late:
            self._new_id(feed)  # so that its problems are found; it has no rows
        return feed.rest and not quiet

    # -- shared ------------------------------------------------------------------------------------------------

    def _call(
        self, file: File, feed: Feed, content: Content, data: bytes, state: Any, final: bool
    ) -> tuple[Reading, int] | None:
        """Ask the reader: its answer and the number of rows, None if it failed. A mistake in the rows is its own."""
        source = Source(
            file.shown,
            feed.name,
            content.status.st_mtime_ns // 1_000_000,
            content.size,
            feed.consumed if feed.kind.append else 0,
        )
        try:
            reading = feed.kind.read(source, data, state, final)
            rows = self.stores[feed.view].check(reading.rows)
            if feed.kind.append:
                if not 0 <= reading.consumed <= len(data):
                    raise BadRows(f"consumed {reading.consumed} of {len(data)} bytes")
                if rows and not reading.consumed and not final:
                    raise BadRows("rows without consuming their bytes")
            return reading, rows
        except (Exception, pl.exceptions.PanicException) as error:  # Polars' own mistakes are no Exception
            self.recogniser.failed(file, feed.view, feed.kind, error)
            return None

    def _describe(self, file: File, feed: Feed, *, changed: bool, content: Content | None = None) -> None:
        """Bring the feed's info up to date."""
        if changed:
            feed.version = self.versions[feed.view] + 1
            self.touched.add(feed.view)
        if feed.kind.append and feed.mark == -1 and content is not None:
            feed.mark = content.mark(feed.consumed) if not content.packing else 0
        if not changed and feed.info is None:
            return
        old = feed.info
        mtime_ms = old.mtime_ms if old is not None else 0
        size = old.size if old is not None else 0
        if content is not None and not (feed.stale and old is not None and not feed.kind.append):
            mtime_ms, size = content.status.st_mtime_ns // 1_000_000, content.size
        feed.info = FileInfo(feed.id, file.shown, file.label, feed.kind.id, mtime_ms, size, feed.version, feed.stale)
        if feed.info != old:
            self.infos[feed.view].put(feed.info)
            self.touched.add(feed.view)

    def note(self, feed: Feed) -> None:
        """Remember whether ``feed`` has problems, so that a snapshot finds them without asking every file."""
        troubled = self.troubled[feed.view]
        (troubled.add if feed.problems or feed.late else troubled.discard)(feed)

    def _refuse(self, file: File, feed: Feed, reason: str) -> None:
        """Give a file up: no rows of it, and a problem that says why."""
        self._restart(feed)
        feed.stale = False
        feed.digest = None
        file.problems = (*file.problems, Problem.at(file.path, "too-big", reason))
        self.touched.add(feed.view)

    def _damaged(self, file: File, content: Content, quiet: bool) -> bool:
        if content.damage is not None or content.unpacked_all:
            file.damage = content.damage
        damage = file.damage if content.packing else None
        if damage is None:
            return False
        if damage.cut and not quiet:
            return True
        kind = "cut-file" if damage.cut else "damaged-archive"
        file.problems = (*file.problems, Problem.at(file.path, kind, str(damage)))
        return False

    def flush(self, view: str) -> None:
        """Make frames of what was gathered; files whose rows cannot be taken become problems."""
        for number, error in self.stores[view].flush().items():
            feed = self.feeds[view].get(number)
            if feed is None:
                continue
            if self.strict:
                raise error
            log.error("rows of reader %s of %s cannot be taken", feed.kind.id, view, exc_info=error)
            path = feed.info.path if feed.info is not None else feed.name
            reason = f"the reader {feed.kind.id} gave rows that do not fit its tables ({error}): please report"
            feed.problems = (*feed.problems, Problem.at(path, "reader-error", reason))
            self.note(feed)
