"""Documents in memory give the inputs that a session makes of the same files on disk, for every view."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.core.reading import FileKind
from engine.core.view import Context, Inputs, View
from engine.job_heuristics.fleet.documents import Document, inputs
from tests.contract.samples import FED, opened, play, view

NOW = 1_800_000_000_000


def documents(folder: Path) -> list[Document]:
    """All files below ``folder``, the last one first."""
    return [
        Document(str(path), path.stat().st_mtime_ns // 1_000_000, path.read_bytes())
        for path in sorted(folder.rglob("*"), reverse=True)
        if path.is_file()
    ]


def tables(chosen: View) -> list[str]:
    kinds: tuple[FileKind, ...] = chosen.kinds
    return sorted({table.name for kind in kinds for table in kind.tables})


def assert_equal(chosen: View, made: Inputs, read: Inputs) -> None:
    """The same rows, files and problems. Versions count looks: they differ."""
    assert {number: replace(info, version=0) for number, info in made.files.items()} == {
        number: replace(info, version=0) for number, info in read.files.items()
    }
    assert made.problems == read.problems
    for name in tables(chosen):
        assert made.table(name).equals(read.table(name)), name


@pytest.mark.parametrize("name", FED)
def test_documents_give_what_a_session_reads(name: str, tmp_path: Path) -> None:
    folder = play(name, tmp_path, changes=1)
    some = sorted(path for path in folder.rglob("*") if path.is_file())
    first = some[0]
    packed = first.with_name(first.name + ".gz")
    packed.write_bytes(gzip.compress(first.read_bytes()))  # a copy: its rows must not count twice
    cut = first.with_name("cut-" + first.name)
    cut.write_bytes(first.read_bytes()[:-7])
    first.with_name("." + first.name).write_bytes(b"hidden")
    (folder / "empty.json").write_bytes(b"")
    (folder / "zeros.csv").write_bytes(bytes(5000))
    (folder / "half.json.gz").write_bytes(gzip.compress(os.urandom(9000))[:4000])
    session = opened(name, folder)
    try:
        read, chosen = session.inputs(name), view(name)
        made = inputs(chosen, documents(folder), root=str(folder))
        assert_equal(chosen, made, read)
        assert made.files
        context = Context(now_ms=NOW)
        parameters = chosen.parameters()
        assert chosen.compute(made, parameters, context).same_as(chosen.compute(read, parameters, context))
    finally:
        session.close()


def test_no_documents_are_no_files() -> None:
    chosen = view(FED[0])
    assert not inputs(chosen, []).files
    assert not inputs(chosen, [Document("/data/.git/x.json", 0, b"{}"), Document("/data/a.tmp", 0, b"{}")]).files


def test_the_last_of_several_documents_of_a_path_counts(tmp_path: Path) -> None:
    chosen = view("run-comparison")
    new = documents(play("run-comparison", tmp_path))
    old = [Document(document.path, 1000, b"") for document in new]
    assert_equal(chosen, inputs(chosen, [*old, *new]), inputs(chosen, new))
    assert not inputs(chosen, [*new, *old]).files
