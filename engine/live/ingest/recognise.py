"""Whose file is it? Every reader of every view is asked by name and first bytes."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from engine.live.files.tracked_file import File, unrotated
from engine.problems import Problem
from engine.reading import FileKind
from engine.text import clean

log = logging.getLogger(__name__)


class Recogniser:
    """Knows the readers of all views; ``strict`` lets their programming errors through."""

    def __init__(self, kinds: Sequence[tuple[str, FileKind]], *, strict: bool = False) -> None:
        self.kinds = tuple(kinds)
        self.strict = strict

    def readers(self, file: File, name: str, head: bytes) -> list[tuple[str, FileKind, str]]:
        """View, reader and the name it knows the file by, of all that want it. A log whose name nobody wants is offered
        once more without its rotation ending."""
        found = self._ask(file, name, head, self.kinds) if head else []
        if head and not found:
            bare = unrotated(name)
            if bare and bare != name:
                found = self._ask(file, bare, head, [pair for pair in self.kinds if pair[1].append])
        return found

    def _ask(
        self, file: File, name: str, head: bytes, kinds: Iterable[tuple[str, FileKind]]
    ) -> list[tuple[str, FileKind, str]]:
        found = []
        shown = clean(name)
        for view, kind in kinds:
            try:
                if kind.recognise(shown, head):
                    found.append((view, kind, shown))
            except Exception as error:
                self.failed(file, view, kind, error)
        return found

    def failed(self, file: File, view: str, kind: FileKind, error: BaseException) -> Problem:
        """Note a mistake of a reader as a problem of the file. Raises it if strict."""
        if self.strict:
            raise error
        log.error("%s: reader %s of %s failed", clean(file.path), kind.id, view, exc_info=error)
        problem = Problem.at(
            file.path, "reader-error", f"the reader {kind.id} failed ({type(error).__name__}: {error}): please report"
        )
        file.problems = (*file.problems, problem)
        return problem
