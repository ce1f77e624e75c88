"""Read a file for one reader: of a growing file only the new records, a document whole once it parses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import xxhash

from engine.core.compression import TooBig
from engine.core.reading import Problem
from engine.live.files.tracked_file import ReaderState, TrackedFile
from engine.live.ingest import file_content
from engine.live.ingest.file_content import MARK, MAX_RECORD, Content, fingerprint
from engine.live.ingest.registry import Registry

MOST_GATHERED = 20_000  # rows gathered in a store before they become frames


class LogReader:
    """Updates the store from one growing file."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def read(
        self,
        file: TrackedFile,
        reader: ReaderState,
        content: Content,
        *,
        quiet: bool,
        same: bool,
        verify: str,
    ) -> bool:
        """Read the new records. Returns whether bytes are left that wait for more. Raises TooBig.

        ``quiet``: the file has settled; ``same``: it is as it was at the last look; ``verify``: how much of what was
        read must be proven unchanged.
        """
        if reader.consumed and self.rewritten(reader, content, verify):
            self._registry.restart(reader)
        elif reader.id and same and (reader.provisional or not reader.rest or not quiet) and not reader.stale:
            return reader.rest and not reader.provisional
        elif reader.consumed and reader.hasher is None and not self._proven(reader, content):
            self._registry.restart(reader)
        changed, before = self._begin(reader), reader.consumed
        carry = self._read_on(file, reader, content)
        changed |= reader.consumed > before
        reader.stale = carry is None
        reader.rest = bool(carry)
        if carry and quiet and content.damage is None:
            answer = self._registry.call(file, reader, content, carry, _copied(reader.state), True)
            reader.provisional = True
            if answer is not None:
                reading, count = answer
                self._registry.stores[reader.view].put(reader.id, reading.rows, count, provisional=True)
                reader.late_problems = file.bounded(tuple(reading.problems))
            changed = True
        self._registry.describe(file, reader, changed=changed, content=content)
        return reader.rest and not reader.provisional

    def _begin(self, reader: ReaderState) -> bool:
        """Undo what the last look had to guess. Returns whether that changed rows."""
        changed = not reader.id
        if not reader.id:
            self._registry.register(reader)
        if not reader.consumed:
            reader.hasher = xxhash.xxh3_64()
        if reader.provisional:
            self._registry.stores[reader.view].forget_provisional(reader.id)
            reader.provisional = False
            changed = True
        if reader.late_problems:
            reader.late_problems = ()
            changed = True
        return changed

    def _read_on(self, file: TrackedFile, reader: ReaderState, content: Content) -> bytes | None:
        """Read the new records. Returns the bytes of an incomplete last one, None if the reader failed."""
        store = self._registry.stores[reader.view]
        carry = b""
        begins = self._registry.ahead.begins if self._registry.ahead is not None else {}
        for data in self._blocks(reader, content, begins.get(file.path, 0)):
            answer = self._registry.call(file, reader, content, data, reader.state, False)
            if answer is None:
                return None
            reading, count = answer
            used = reading.consumed
            if used:
                store.put(reader.id, reading.rows, count)
                reader.state = reading.state
                reader.problems = file.bounded((*reader.problems, *reading.problems))
                self._advance(reader, data, used)
            carry = data[used:] if used else data
            if store.gathered > MOST_GATHERED:
                self._registry.flush(reader.view)
        return carry

    @staticmethod
    def _blocks(reader: ReaderState, content: Content, cut: int) -> Iterator[bytes]:
        """Yield the new bytes, block by block, each from where the reader has stopped; one ends at ``cut``. Raises TooBig."""
        if content.streamed:
            carry = b""
            for block in content.blocks(reader.consumed):
                data = carry + block if carry else block
                before = reader.consumed
                yield data
                carry = data[reader.consumed - before :]
                if len(carry) > MAX_RECORD:
                    raise TooBig(f"no complete record in {MAX_RECORD >> 20} MB")
            return
        length, until = file_content.BLOCK, content.size
        while reader.consumed < until:
            before = reader.consumed
            data = content.piece(before, min(length, (cut if before < cut else until) - before))
            if not data:
                return
            yield data
            if before + len(data) >= until:
                return
            if reader.consumed > before:
                length = file_content.BLOCK
            elif before < cut:
                cut = 0
            elif length > MAX_RECORD:
                raise TooBig(f"no complete record in {MAX_RECORD >> 20} MB")
            else:
                length *= 2

    # -- fingerprints ------------------------------------------------------------------------------------------

    @staticmethod
    def rewritten(reader: ReaderState, content: Content, verify: str) -> bool:
        """Whether what was read of the file is no longer how it begins (``verify``: how thoroughly to look)."""
        if verify == "restart":
            return True
        if content.packing or verify == "whole":
            if not content.packing and content.size < reader.consumed:
                return True
            digest = reader.hasher.intdigest() if reader.hasher is not None else reader.digest
            hasher, done = content.prefix(reader.consumed)
            return digest is None or (hasher.intdigest(), done) != (digest, reader.consumed)
        return content.size < reader.consumed or content.mark(reader.consumed) != reader.mark

    @staticmethod
    def _proven(reader: ReaderState, content: Content) -> bool:
        """Hash what an earlier process read of this file, so that hashing can go on. Returns whether it is the same."""
        hasher, done = content.prefix(reader.consumed)
        if done < reader.consumed or hasher.intdigest() != reader.digest:
            return False
        reader.hasher = hasher
        return True

    @staticmethod
    def _advance(reader: ReaderState, data: bytes, used: int) -> None:
        if reader.hasher is not None:
            reader.hasher.update(data if used == len(data) else memoryview(data)[:used])
        reader.digest = None
        if used >= MARK or reader.consumed == 0:
            reader.mark = fingerprint(data[max(0, used - MARK) : used])
        else:
            reader.mark = -1  # spans the earlier part: taken from the file when it is described
        reader.consumed += used


def _copied(state: Any) -> Any:
    """Return a copy of a reader's state that the reader may change without harm."""
    try:
        return msgspec.msgpack.decode(msgspec.msgpack.encode(state))
    except (TypeError, OverflowError, ValueError):
        return state


class DocumentReader:
    """Updates the store from one document."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def read(self, file: TrackedFile, reader: ReaderState, content: Content, *, quiet: bool) -> bool:
        """Read the document if it changed. Returns whether it does not parse yet. Raises TooBig."""
        data = content.whole()
        digest = fingerprint(data)
        if (
            digest == reader.digest
            and not (reader.failed or (quiet and reader.rest and not reader.tried_final))
            and not _moved(file, reader)
        ):
            if reader.info is not None and not reader.rest:
                reader.stale = False
            self._registry.describe(file, reader, changed=False, content=content)
            return reader.rest and not reader.tried_final
        answer = self._registry.call(file, reader, content, data, None, quiet)
        reader.digest = digest
        reader.tried_final = quiet
        reader.late_problems = tuple[Problem, ...]()
        if answer is not None and answer[0].complete:
            reading, count = answer
            self._registry.register(reader)
            reader.info = None
            reader.stale = False
            reader.problems = file.bounded(tuple(reading.problems))
            self._registry.stores[reader.view].put(reader.id, reading.rows, count)
            reader.consumed = len(data)
            ended = content.damage is None and data.endswith(b"\n")
            reader.rest = not ended and not quiet and not getattr(reader.kind, "closes", False)
            self._registry.describe(file, reader, changed=True, content=content)
            return reader.rest
        reader.stale, reader.rest = True, answer is not None
        if answer is not None:
            self._keep_last_good(file, reader, content, tuple(answer[0].problems), quiet)
        self._registry.describe(file, reader, changed=False, content=content)
        self._registry.touched.add(reader.view)
        if reader.id == 0 and reader.late_problems:
            self._registry.register(reader)  # without rows, so that its problems are found
        return reader.rest and not quiet

    def _keep_last_good(
        self,
        file: TrackedFile,
        reader: ReaderState,
        content: Content,
        problems: tuple[Problem, ...],
        quiet: bool,
    ) -> None:
        """Keep the rows of the last version that parsed; note a problem once the file is quiet."""
        if reader.info is not None and reader.info.path != file.shown and content.size != reader.info.size:
            # Another file that was given the same inode: those rows are not its last good ones.
            digest = reader.digest
            self._registry.restart(reader)
            reader.digest, reader.tried_final, reader.stale, reader.rest = digest, quiet, True, True
        if quiet:
            more = "" if reader.info is None else ": the last good version is shown"
            incomplete = Problem.at(file.path, "incomplete", f"does not parse{more}")
            reader.late_problems = file.bounded(problems or (incomplete,))


def _moved(file: TrackedFile, reader: ReaderState) -> bool:
    """Whether the file has another path than when it was read."""
    return file.read_path not in ("", file.path) or (reader.info is not None and reader.info.path != file.shown)
