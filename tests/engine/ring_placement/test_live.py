"""The view on a live folder: files replaced by renaming, as memberlist and bucket dumps are."""

from __future__ import annotations

import shutil
from pathlib import Path

from engine.live.session import Session
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.ring import Member
from engine.ring_placement.view import VIEW
from sample_data.ring_placement.live import LOST, RESTART, steps
from tests.engine.ring_placement.cases import page


def test_a_reused_inode_does_not_keep_another_files_rows(tmp_path: Path) -> None:
    ring, limits = tmp_path / "x.yaml", tmp_path / "y.yaml"
    ring.write_bytes(page([Member("w-0"), Member("w-1")]))
    limits.write_bytes(b"overrides:\n  a:\n    adaptive_placement_tenant_shards: 3\n")
    session = Session([tmp_path], [VIEW])
    session.scan()
    # The same inode under the other path with the other content: what a busy file system does by itself.
    ring.rename(limits)
    limits.write_bytes(b"overrides:\n  a:\n    adaptive_placement_tenant_shards: 4\n")
    ring.write_bytes(page([Member("w-0")]))
    session.scan()
    files = session.inputs("ring-placement").files.values()
    assert {(f.label, f.kind, f.stale) for f in files} == {
        ("x.yaml", "ring-page", False),
        ("y.yaml", "overrides", False),
    }
    session.close()


def test_the_played_sample(tmp_path: Path) -> None:
    story = steps(tmp_path)
    next(story)
    session = Session([tmp_path], [VIEW])
    seen = set()
    for number in range(1, LOST.stop + 2):
        assert next(story) > 0
        if number not in (1, RESTART.start, RESTART.stop - 1, LOST.start, LOST.stop - 1, LOST.stop):
            continue
        session.scan(final=True)
        result = session.compute("ring-placement", RingParameters())
        assert not result.problems
        states = dict(zip(result.tables["nodes"]["instance"], result.tables["nodes"]["state"], strict=True))
        seen |= {f"7 {states['segment-writer-7']}", f"4 {states.get('segment-writer-4', 'gone')}"}
        # The stats are written for the ring of their moment: what is observed agrees with what is computed.
        observed = result.tables["observed"]
        assert not observed.filter((observed["source"] == "stats") & (observed["drift"] != "")).height
        assert result.summary["load_total"] > 0
    assert seen == {"7 ACTIVE", "7 LEAVING", "7 JOINING", "4 ACTIVE", "4 UNHEALTHY", "4 gone"}
    session.close()


def test_the_static_sample(tmp_path: Path) -> None:
    from sample_data.ring_placement import make

    shutil.copytree(Path(make.__file__).parent / "files", tmp_path / "files")
    session = Session([tmp_path], [VIEW])
    session.scan(final=True)
    result = session.compute("ring-placement", RingParameters())
    nodes = result.tables["nodes"]
    assert nodes["load_before"].to_list() == nodes["load_observed"].to_list()
    assert not result.problems and not result.findings
    choices = result.tables["strategy"]
    assert choices.height == result.summary["datasets"]
    session.close()
