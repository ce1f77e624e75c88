"""Recognition: every reader of every view is asked by a file's name and first bytes."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from engine.core.compression import unrotated
from engine.core.problems import Problem
from engine.core.reading import FileKind
from engine.core.text import clean
from engine.live.files.tracked_file import TrackedFile

log = logging.getLogger(__name__)


class Recogniser:
    """Asks the readers of all views; ``strict`` raises their programming errors."""

    def __init__(self, kinds: Sequence[tuple[str, FileKind]], *, strict: bool = False) -> None:
        self.kinds = tuple(kinds)
        self.strict = strict

    @property
    def by_id(self) -> dict[tuple[str, str], FileKind]:
        """All readers by view and id."""
        return {(view, kind.id): kind for view, kind in self.kinds}

    def readers(self, file: TrackedFile, name: str, head: bytes) -> list[tuple[str, FileKind, str]]:
        """Return view, reader and the name it knows the file by, of all readers that take it.

        A log whose name no reader takes is offered once more without its rotation ending.
        """
        readers = self._ask(file, name, head, self.kinds) if head else []
        if head and not readers:
            bare = unrotated(name)
            if bare and bare != name:
                readers = self._ask(file, bare, head, [pair for pair in self.kinds if pair[1].append])
        return readers

    def _ask(
        self, file: TrackedFile, name: str, head: bytes, kinds: Iterable[tuple[str, FileKind]]
    ) -> list[tuple[str, FileKind, str]]:
        readers = []
        shown = clean(name)
        for view, kind in kinds:
            try:
                if kind.recognise(shown, head):
                    readers.append((view, kind, shown))
            except Exception as error:
                self.failed(file, view, kind, error)
        return readers

    def failed(self, file: TrackedFile, view: str, kind: FileKind, error: BaseException) -> None:
        """Note a mistake of a reader as a problem of the file. Raises it if strict."""
        if self.strict:
            raise error
        log.error("%s: reader %s of %s failed", clean(file.path), kind.id, view, exc_info=error)
        reason = f"the reader {kind.id} failed ({type(error).__name__}: {error}): please report"
        file.problems = (*file.problems, Problem.at(file.path, "reader-error", reason))
