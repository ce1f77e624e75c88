"""Three views leave out their oldest files, with a note, where memory is short."""

from __future__ import annotations

import os
from pathlib import Path

from engine.core.view import Context, Result
from engine.live.session import Session
from tests.contract.samples import opened, play

NOW = 1_800_000_000_000
LEFT_OUT = "to stay within memory-mb"


def computed(session: Session, memory: int) -> Result:
    """Return the result of one view over what its session has read."""
    (chosen,) = session.views.values()
    return chosen.compute(session.inputs(chosen.name), chosen.parameters(), Context(NOW, memory=memory))


def aged(name: str, root: Path) -> Path:
    """Sample files, each a minute newer than the one before."""
    folder = play(name, root, changes=2)
    for number, path in enumerate(sorted(path for path in folder.rglob("*") if path.is_file())):
        os.utime(path, (1_767_312_000 + 60 * number,) * 2)
    return folder


def test_the_oldest_histories_are_left_out(tmp_path: Path) -> None:
    folder = aged("job-heuristics", tmp_path / "all")
    session = opened("job-heuristics", folder)
    found = sorted(session.inputs("job-heuristics").files.values(), key=lambda info: (info.mtime_ms, info.id))
    files = [info.path for info in found]
    whole = computed(session, 1 << 40)
    size = sum(Path(path).stat().st_size * (10 if path.endswith((".zstd", ".lz4", ".zst")) else 1) for path in files)
    some = computed(session, int(0.7 * size * 0.6))
    assert not any(LEFT_OUT in note for note in whole.notes)
    (note,) = (note for note in some.notes if LEFT_OUT in note)
    number = int(note.split(" oldest of ")[0].rsplit(" ", 1)[1])
    assert 0 < number < len(files) and f"oldest of {len(files):,} files" in note
    for path in files[:number]:
        Path(path).unlink()
    session.close()
    fewer = opened("job-heuristics", folder)
    rest = computed(fewer, 1 << 40)
    fewer.close()
    assert 0 < rest.tables["jobs"].height < whole.tables["jobs"].height
    assert all(frame.equals(rest.tables[table]) for table, frame in some.tables.items())


def test_a_ring_keeps_its_page_and_loses_keys(tmp_path: Path) -> None:
    folder = aged("ring-placement", tmp_path / "all")
    table = folder / "loads.csv"
    table.write_text("tenant,dataset,bytes_per_s\n" + "".join(f"t{n % 9},s{n},{n}\n" for n in range(9000)))
    session = opened("ring-placement", folder)
    whole, some = computed(session, 1 << 40), computed(session, 100_000)
    session.close()
    assert not any(LEFT_OUT in note for note in whole.notes) and any(LEFT_OUT in note for note in some.notes)
    assert some.tables["nodes"]["instance"].equals(whole.tables["nodes"]["instance"])


def test_brokers_without_a_topology_lose_their_oldest_scrapes(tmp_path: Path) -> None:
    session = opened("broker-load", play("broker-load", tmp_path / "all", changes=2))
    infos = session.inputs("broker-load").files.values()
    size = sum(info.size for info in infos if info.kind == "metric-scrape")
    described = computed(session, size // 2)
    for info in infos:
        if info.kind != "metric-scrape":
            Path(info.path).unlink()
    session.scan(final=True)
    alone = computed(session, size // 2)
    session.close()
    assert not any(LEFT_OUT in note for note in described.notes) and any(LEFT_OUT in note for note in alone.notes)
