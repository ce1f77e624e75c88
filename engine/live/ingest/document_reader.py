"""Read documents: a changed file is read whole and replaces its rows once it parses."""

from __future__ import annotations

from engine.core.reading import Problem
from engine.live.files.tracked_file import ReaderState, TrackedFile
from engine.live.ingest.file_content import Content, fingerprint
from engine.live.ingest.registry import Registry


class DocumentReader:
    """Updates the store from one document."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def read(self, file: TrackedFile, reader: ReaderState, content: Content, *, quiet: bool) -> bool:
        """Read the document if it changed. Returns whether it does not parse yet. Raises TooBig."""
        data = content.whole()
        digest = fingerprint(data)
        if digest == reader.digest and not self._try_again(reader, quiet) and not _moved(file, reader):
            if reader.info is not None and not reader.rest:
                reader.stale = False
            self._registry.describe(file, reader, changed=False, content=content)
            return reader.rest and not reader.tried_final
        no_problems: tuple[Problem, ...] = ()
        answer = self._registry.call(file, reader, content, data, None, quiet)
        reader.digest = digest
        reader.tried_final = quiet
        reader.late_problems = no_problems
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

    @staticmethod
    def _try_again(reader: ReaderState, quiet: bool) -> bool:
        """Whether the same bytes may give another result now."""
        return reader.failed or (quiet and reader.rest and not reader.tried_final)

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
