"""Faults of the machine while files are followed: nothing is lost, it is said, and it is over when the fault is."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

import engine.live.ingest.follower as follow
from tests.disk import full_after
from tests.engine.live.fake import doc, docs, line, rows, until, values
from tests.engine.live.fake import session as opened


@contextlib.contextmanager
def out_of_descriptors() -> Iterator[None]:
    """No further file can be opened by this process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_out_of_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    log, document = tmp_path / "a.log", tmp_path / "sub" / "b.json"
    log.write_bytes(line("a", 1))
    document.write_bytes(doc("b", 1))
    session = opened(tmp_path)
    session.scan()
    before = rows(session)
    assert (values(session), len(docs(session))) == ([1], 1)
    with log.open("ab") as file:
        file.write(line("a", 2))
    document.write_bytes(doc("b", 1, 2))
    (tmp_path / "new.log").write_bytes(line("c", 3))
    with out_of_descriptors():
        session.look(None)
        session.look({str(log), str(document)})
        assert rows(session) == before, "nothing is lost"
        assert any("Too many open files" in problem.reason for problem in session.problems)
    with monkeypatch.context() as later:
        later.setattr("engine.live.ingest.follower.time.monotonic", lambda: 1e12)  # a second try is due
        session.look(None)
    assert (values(session), len(docs(session))) == ([1, 2, 3], 2) and not session.problems
    session.close()


def test_a_cache_that_cannot_be_written_is_said_and_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "RACY_S", 0.0)
    root, cache = tmp_path / "root", tmp_path / "cache"
    root.mkdir()
    (root / "a.log").write_bytes(b"".join(line("a", number) for number in range(500)))
    session = opened(root, cache=True, cache_dir=str(cache), cache_min_mb=0.0, settle_s=0.0)
    with full_after(64):
        session.scan(final=True)
        until(lambda: bool(session.problems))
    (problem,) = session.problems
    assert problem.kind == "cache" and "File too large" in problem.reason
    assert not [path for path in cache.rglob("*") if path.is_file() and path.name != "lock"], "nothing is left"
    session.close()
    assert not session.problems
    assert [path.name for path in cache.rglob("manifest")] == ["manifest"]
