"""Compressed twins: a compressed copy beside its original must not count rows twice."""

from __future__ import annotations

import os

from engine.core.compression import PACKED, TooBig, group_of
from engine.core.reading import HEAD, clean
from engine.live.files.opening import Open, label
from engine.live.files.tracked_file import TrackedFile
from engine.live.ingest.file_content import MARK, Content
from engine.live.options import LiveSettings

assert HEAD >= MARK


class CompressedTwins:
    """Files by folder and bare name: those of one group may be copies of each other."""

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
        others = sorted(self.groups.get(file.group, set()) - {file}, key=lambda other: other.path)
        for other in others:
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
                front = beside.head()[: len(head)]
                if front != head:
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
