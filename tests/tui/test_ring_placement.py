"""The ring placement tab driven by its keys, on the real engine and our sample; screens compared as text."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from engine.ring_placement.view import VIEW
from sample_data.ring_placement.make import Cluster
from sample_data.whole_files import put
from tests.tui.stage import Stage, compare, copied, opened, play, session_over
from tui.glyphs import BRAILLE
from tui.views.ring_placement.cells import names_cell
from tui.views.ring_placement.drawing import ShardMap, arranged, cells_of, squeeze
from tui.views.ring_placement.pane import Pane
from tui.views.ring_placement.scenario import TABLES
from tui.widgets.sections import Sections
from tui.widgets.table.table import LiveTable
from tui.widgets.table.window import Cell

NUMBER = {name: number for number, (_, name) in enumerate(TABLES, 1)}
SAMPLE = Path(__file__).parents[2] / "sample_data" / "ring_placement" / "files"


@asynccontextmanager
async def ring(
    tmp_path: Path, size: tuple[int, int] = (80, 24), root: Path | None = None, **ui: Any
) -> AsyncIterator[Stage]:
    """The dashboard on the sample, or on ``root`` whose files change, on this tab, with its first result."""
    async with opened(root or copied(SAMPLE), VIEW, tmp_path, size, once=root is None, **ui) as found:
        await found.until(lambda: table(found, "nodes").window is not None)
        yield found


def pane(s: Stage) -> Pane:
    found = s.app.pane
    assert isinstance(found, Pane)
    return found


def table(s: Stage, name: str) -> LiveTable:
    return pane(s).query_one(f"#ring-{name}", LiveTable)


async def down(s: Stage, *names: str) -> None:
    await s.until(lambda: pane(s).result is not None and pane(s).result.summary["down"] == list(names))


def node_id(s: Stage) -> str:
    row = table(s, "nodes").row
    assert row is not None
    return str(row["instance"])


def test_space_fails_a_node_and_brings_it_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with ring(tmp_path) as s:
            text = s.text()
            assert "segment-writer" in text.replace("…ent-writer", "segment-writer") and "nothing fails" in text
            assert s.app.focused is table(s, "nodes")
            first = node_id(s)
            await s.press("space")
            await down(s, first)
            await s.see(f"fail {first}")
            assert "u undoes, 1 step" in s.text()
            assert node_id(s) == first, "the cursor stays on its node"
            await s.press("space")
            await down(s)
            await s.press("u")
            await down(s, first)
            await s.press("u")
            await down(s)
            await s.see("nothing fails")

    play(story)


def test_zone_and_single_nodes_go_together(tmp_path: Path) -> None:
    async def story() -> None:
        async with ring(tmp_path) as s:
            await s.press("Z")
            zone = ("segment-writer-0", "segment-writer-3", "segment-writer-6", "segment-writer-9")
            await down(s, *zone)
            await s.see("fail zone:zone-a")
            await s.press("space")
            await down(s, *zone[1:])
            await s.press("Z")
            await down(s, *zone)
            await s.press("Z")
            await down(s)
            await s.press("j", "space")
            await down(s, "segment-writer-1")
            await s.press("x")
            await down(s)
            assert pane(s).parameters.fail == ()
            await s.press("u")
            await down(s, "segment-writer-1")

    play(story)


def test_the_map_is_right_after_a_change_made_in_another_section(tmp_path: Path) -> None:
    async def story() -> None:
        async with ring(tmp_path) as s:
            await s.press("space")
            await s.see("fail segment-writer-0")
            await s.press("]")
            await s.until(lambda: pane(s).query_one(Sections).chosen == NUMBER["tenants"])
            await s.press("x")
            await down(s)
            await s.press("[")
            await s.see("nothing fails")
            assert "sign and colour per owner" in s.text(), "the shard map has no failed node any more"

    play(story)


def test_one_node_more_and_one_fewer_is_no_change(tmp_path: Path) -> None:
    async def story() -> None:
        async with ring(tmp_path) as s:
            await s.press("plus")
            await s.see("13 nodes")
            await s.press("minus")
            await s.see("nothing fails")
            assert pane(s).parameters == pane(s).defaults
            await s.press("plus", "minus", "minus")
            await s.see("11 nodes")
            await s.press("x")
            await s.see("nothing fails")
            assert pane(s).parameters == pane(s).defaults

    play(story)


def test_failed_nodes_are_marked_where_they_are(tmp_path: Path) -> None:
    async def story() -> None:
        async with ring(tmp_path) as s:
            before = table(s, "nodes").window.shown()["instance"].to_list()
            await s.press("space", "j", "j", "space", "j")
            await down(s, before[0], before[2])
            await s.see("FAILED")
            marked = [
                line.split()[1] for line in s.text().split("\n") if " FAILED " in line and "segment-writer-" in line
            ]
            assert marked == [before[0], before[2]], "both rows stand where they stood"
            assert table(s, "nodes").window.shown()["instance"].to_list() == before
            assert table(s, "nodes").cursor == 3, "the cursor stays"

    play(story)


def test_a_tall_screen_shows_the_tenants_below_the_nodes(tmp_path: Path) -> None:
    async def story() -> None:
        async with ring(tmp_path, (160, 45)) as s:
            await s.see("payments")
            tenants = pane(s).query_one("#ring-top-tenants", LiveTable)
            assert tenants.display and table(s, "nodes").size.height >= 13
            await s.pilot.resize_terminal(80, 24)
            await s.until(lambda: not tenants.display)

    play(story)


def test_escape_stops_a_sweep_that_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with ring(tmp_path) as s:
            await s.press("space")
            await down(s, "segment-writer-0")
            await s.press("X")
            await s.until(lambda: "sweep" in pane(s).result.tables)
            await s.press("escape")
            assert pane(s).parameters.sweep == "nodes", "nothing runs, nothing is stopped"
            monkeypatch.setattr(s.app, "working", lambda view: True)
            await s.press("escape")
            await s.until(lambda: "sweep" not in pane(s).result.tables)
            assert pane(s).parameters.sweep == "" and pane(s).parameters.fail == ("segment-writer-0",)
            await s.press("escape")
            assert pane(s).parameters.fail == ("segment-writer-0",), "only a sweep is stopped"

    play(story)


def test_the_time_axis(tmp_path: Path) -> None:
    async def story() -> None:
        async with ring(tmp_path) as s:
            await s.press("space")
            await down(s, "segment-writer-0")
            assert pane(s).result.summary["total_shards"] == 48
            await s.press("A")
            await s.until(lambda: pane(s).result.summary["regime"] == "left")
            assert pane(s).result.summary["total_shards"] == 44
            assert "----" in s.text(), "shards that are gone are dashes"
            await s.press("A")
            await s.until(lambda: pane(s).result.summary["regime"] == "returned")
            await s.press("A")
            await s.until(lambda: pane(s).result.summary["regime"] == "transient")
            moments = pane(s).result.detail.timeline
            assert [m.letter for m in moments] == ["A", "B", "C"]

    play(story)


def test_what_if_steps(tmp_path: Path) -> None:
    async def story() -> None:
        async with ring(tmp_path) as s:
            await s.press("plus")
            await s.see("13 nodes")
            await s.until(lambda: pane(s).result.summary["total_shards"] == 52)
            await s.press("minus", "minus")
            await s.until(lambda: pane(s).result.summary["total_shards"] == 44)
            await s.choose("ring-placement.padded")
            await s.see("padded IDs")
            await s.choose("ring-placement.toggle-leaving")
            await s.until(lambda: bool(pane(s).parameters.leaving))
            await s.press("x")
            await s.see("nothing fails")
            await s.press("i")
            await s.see("What if")
            text = s.text()
            assert text.index("fail") < text.index("tokens") < text.index("cascade")
            assert "explain" not in text.split("option")[0]
            await s.press(*["down"] * 5, "enter")
            await s.pilot.press("1", "enter")
            await s.until(lambda: pane(s).parameters.tokens == 1)
            await s.press("escape")
            await s.see("1 tokens each")

    play(story)


def test_a_sweep_opens_scenarios(tmp_path: Path) -> None:
    async def story() -> None:
        async with ring(tmp_path) as s:
            await s.press("X")
            await s.until(lambda: table(s, "sweep").window is not None and table(s, "sweep").window.height == 12)
            await s.see("Sweep nodes")
            worst = table(s, "sweep").row
            await s.press("enter")
            await down(s, *worst["down"])
            assert pane(s).query_one("#ring-sections", Sections).chosen == 0
            assert s.app.focused is table(s, "nodes")
            assert pane(s).result.tables["nodes"]["load_after"].max() == worst["worst_load"]
            await s.press("X")
            await s.until(lambda: s.app.focused is table(s, "sweep"))
            await s.press("X")
            await s.until(lambda: pane(s).parameters.sweep == "zones")
            await s.until(lambda: table(s, "sweep").window.height == 3)
            await s.press("enter")
            await s.until(lambda: len(pane(s).result.summary["down"]) == 4)
            assert pane(s).parameters.fail[0].startswith("zone:")

    play(story)


def test_keys_are_explained(tmp_path: Path) -> None:
    async def story() -> None:
        async with ring(tmp_path, (120, 40)) as s:
            sections = pane(s).query_one("#ring-sections", Sections)
            await s.press(*["right_square_bracket"] * 4)
            assert sections.chosen == NUMBER["placements"]
            await s.until(lambda: table(s, "placements").row is not None)
            row = table(s, "placements").row
            await s.press("enter")
            await s.until(lambda: "explain" in pane(s).result.tables)
            hashed = pane(s).result.tables["explain"].row(0, named=True)
            assert hashed["name"] == "tenant" and hashed["note"] == f"XXH64 of {row['tenant']!r}"
            assert sections.chosen == NUMBER["explain"]
            await s.press("E", *["backspace"] * 60)
            for key in "checkout/api":
                await s.pilot.press({"/": "slash"}.get(key, key))
            await s.press("enter")
            await s.see("3565d2b26259a99d")
            steps = pane(s).result.tables["explain"]
            await s.see(next(row["value"] for row in steps.to_dicts() if row["name"] == "owner"))
            await s.press("j")
            await s.see("XXH64 of 'api'")

    play(story)


def test_every_section_draws(tmp_path: Path) -> None:
    async def story() -> None:
        async with ring(tmp_path, (120, 40)) as s:
            sections = pane(s).query_one("#ring-sections", Sections)
            for number in range(len(TABLES) + 1):
                sections.choose(number)
                await s.pilot.pause(0.05)
                assert not pane(s).error
            sections.choose(NUMBER["shards"])
            await s.until(lambda: table(s, "shards").window is not None and table(s, "shards").window.height == 48)

    play(story)


def test_a_new_ring_file_keeps_the_scenario(tmp_path: Path) -> None:
    root = Path(shutil.copytree(SAMPLE, tmp_path / "data"))

    async def story() -> None:
        async with ring(tmp_path, root=root) as s:
            await s.press("space")
            await down(s, "segment-writer-0")
            cluster = Cluster.fresh(size=15)
            cluster.now_s += 60
            cluster.members = [
                type(m)(m.id, m.state, m.zone, m.tokens, m.address, cluster.now_s) for m in cluster.members
            ]
            put({root / "ring.json": cluster.page()})
            await s.until(lambda: pane(s).result.summary["members"] == 15, 15)
            assert pane(s).result.summary["down"] == ["segment-writer-0"]
            assert pane(s).parameters.fail == ("segment-writer-0",)
            assert "fail segment-writer-0" in s.text()
            await s.press("left_parenthesis")
            await s.until(lambda: pane(s).result.summary["members"] == 12)
            await s.see(" AT ")
            assert "fail segment-writer-0" in s.text(), "the scenario goes along"
            await s.press("right_parenthesis")
            await s.until(lambda: pane(s).result.summary["members"] == 15 and pane(s).shown_ms is None)

    play(story)


def test_hostile_and_odd_rings(tmp_path: Path) -> None:
    async def story() -> None:
        data = tmp_path / "data"
        data.mkdir()
        names = ("[red]x[/b]", "\x1b[31mevil\u202e", "日本-1", "w" * 300, "e")
        states = ("ACTIVE", "ACTIVE", "ACTIVE", "ODD", "LEFT")
        beat = "2026-01-01T00:00:00Z"
        shards = [
            {"id": name, "state": state, "zone": "[/z]", "tokens": [1, 2] if k else None, "timestamp": beat}
            for k, (name, state) in enumerate(zip(names, states, strict=True))
        ]
        (data / "ring.json").write_text(json.dumps({"shards": shards, "now": "2026-01-01T00:00:10Z"}))
        (data / "l.csv").write_text("tenant,dataset,bytes_per_s\n[bold]t,\x1b]0;x\x07,5\n")
        async with ring(tmp_path, root=data) as s:
            for _ in range(5):
                await s.press("space", "j", "Z")
            await s.press("d", "d", "X", "A")
            await s.pilot.pause(0.1)
            assert not pane(s).error
            assert "\x1b" not in s.text() and "\u202e" not in s.text()

    play(story)


@pytest.mark.parametrize("total", [1, 48, 150, 316, 317, 800, 5000])
@pytest.mark.parametrize(("width", "rows"), [(78, 2), (118, 5), (158, 8), (10, 1)])
def test_every_shard_has_its_place_on_the_map(total: int, width: int, rows: int) -> None:
    lines = arranged(total, width, rows)
    assert len(lines) <= rows
    assert [p for start, count, _ in lines for p in range(start, start + count)] == list(range(total))
    if lines[0][2]:
        assert lines[0][1] * (len(str(total)) + 2) <= width


def test_a_map_of_many_shards_is_squeezed() -> None:
    from engine.ring_placement.result.detail import NodeBar, ShardMapView

    owners = tuple(k % 3 for k in range(1000))
    taken = tuple(1 if k == 500 else -1 if k == 501 else -2 if k == 7 else o for k, o in enumerate(owners))
    nodes = tuple(NodeBar(f"n{k}", "z", None, "") for k in range(3))
    picture = ShardMapView(nodes, (*owners, 0), owners, taken, "transient", ())
    parts = cells_of(picture)
    assert len(parts) == 1001
    assert parts[500] == ("b", "away-1") and parts[501] == ("!", "critical") and parts[-1] == ("-", "dim")
    assert parts[7] == ("b", "struck")
    small = squeeze(parts, 60)
    assert len(small) == 60
    assert [p for p in small if p[1] == "critical"], "the worst of each cell's shards is kept"
    assert squeeze(parts, 2000) == parts


def test_the_map_names_nodes_by_what_tells_them_apart() -> None:
    """Pods of the usual chart have names of 26 cells: cut at their end they are all alike."""
    from engine.ring_placement.result.detail import NodeBar, ShardMapView
    from tui.glyphs import BRAILLE

    class Legend(ShardMap):
        glyphs = BRAILLE  # no application runs here

    nodes = tuple(NodeBar(f"pyroscope-segment-writer-{k}", "z", None, "down" if k == 2 else "") for k in range(12))
    line = Legend()._legend(ShardMapView(nodes, (), (), (), "transient", (), flows=((2, 11, 1.0),)), 36, 36, 160)
    text = "".join(part for part, _ in line)
    assert "writer-2 " in text and "writer-11 " in text


SCREENS = (
    {"map-80x24": (), "light-80x24": ("space",), "ansi-80x24": (), "failed-left-80x24": ("A",)},
    {"failed-80x24": ("space", "j", "j", "space")},
    {"failed-ascii-80x24": ("Z",)},
    {"detail-80x24": ("space", "d")},
    {"zone-120x40": ("Z", "j"), "zone-left-200x50": ("k", "A")},
    {"sweep-80x24": ("X",)},
)
"""Goldens by name, and the keys that lead to each from the one before it on one screen."""


@pytest.mark.parametrize("screens", SCREENS, ids=lambda screens: next(iter(screens)))
def test_screens(screens: dict[str, tuple[str, ...]], tmp_path: Path, update: bool) -> None:
    async def story() -> None:
        glyphs = "ascii" if "failed-ascii-80x24" in screens else "braille"
        async with ring(tmp_path, glyphs_set=glyphs) as s:
            for name, keys in screens.items():
                width, height = map(int, name.rpartition("-")[2].split("x"))
                await s.resize(width, height)
                s.app.theme = {"light": "loadlens-light", "ansi": "ansi-dark"}.get(name.split("-")[0], "loadlens-dark")
                for key in keys:
                    before = pane(s).result
                    await s.press(key)
                    if key in ("space", "Z", "A", "X"):
                        await s.until(lambda before=before: pane(s).result is not before)
                await s.pilot.pause(0.1)
                # The last two lines are the shell's: age of the data and keys.
                shown = "\n".join(s.text().split("\n")[:-2]) + "\n"
                assert max(len(line) for line in shown.split("\n")) <= width
                compare(f"ring-placement-{name}", shown, update)

    play(story)


def test_the_tab_shows_what_report_says(tmp_path: Path) -> None:
    async def story() -> None:
        async with ring(tmp_path) as s:
            await s.press("Z", "A")
            await s.until(lambda: pane(s).result.summary["regime"] == "left")
            session = session_over(copied(SAMPLE), VIEW)
            session.scan(final=True)
            plain = session.compute("ring-placement", pane(s).parameters)
            assert plain.summary == pane(s).result.summary
            for name, frame in plain.tables.items():
                assert frame.equals(pane(s).result.tables[name]), name
            assert pane(s).query_one(ShardMap).shown == plain.detail

    play(story)


def test_a_token_ring_on_the_same_tab(tmp_path: Path) -> None:
    """The next ring, a failing zone and one node more, the moments, tenants, pairs, and a tenant explained."""

    async def story() -> None:
        async with ring(tmp_path, (120, 40)) as s:
            await s.press("I")
            await s.see("token ring")
            await s.see("zone-a abcdef 6 of 6 up")
            assert pane(s).parameters.ring == "mimir/ingester-ring.json"
            await s.press("Z")
            await s.see("zone-a xxxxxx 0 of 6 up")
            await s.see("A writes ok, reads ok")
            await s.press(*["down"] * 6, "space")
            await s.see("keys lost, reads fail")
            assert 0.1 < pane(s).result.summary["write_lost_share"] < 0.3
            await s.press("A")
            await s.until(lambda: pane(s).parameters.regime == "unhealthy")
            await s.press("right_square_bracket")
            await s.until(lambda: table(s, "tenants").row is not None)
            assert table(s, "tenants").row["write_lost_share"] > 0
            assert pane(s).query_one(Sections).chosen == NUMBER["tenants"]
            await s.press("right_square_bracket")
            await s.see("share of all keys that cannot be written")
            await s.press("left_square_bracket", "enter")
            await s.see("seed of the draws in zone-a")
            await s.press("right_square_bracket")
            await s.until(lambda: table(s, "sizes").row is not None)
            await s.press("I")
            await s.until(lambda: pane(s).result.detail.kind == "segment-writer" and not pane(s).parameters.fail)

    play(story)


def test_a_ring_of_unknown_kind_asks(tmp_path: Path) -> None:
    root = Path(shutil.copytree(SAMPLE, tmp_path / "data"))

    async def story() -> None:
        async with ring(tmp_path, (120, 40), root) as s:
            shutil.rmtree(root / "mimir")
            for name in ("overrides.yaml", "metrics.prom"):
                (root / name).unlink()
            for name in ("adaptive_placement", "segments"):
                shutil.rmtree(root / name)
            text = (root / "ring.json").read_text().replace("segment-writer", "node")
            put({root / "ring.json": text.encode()})
            await s.until(lambda: pane(s).result.summary.get("strategy") == "")
            await s.see("of unknown kind")
            await s.press("space", "A", "X", "E", "escape")
            assert not pane(s).error

    play(story)


def test_a_flag_of_the_same_name_as_a_list_is_drawn() -> None:
    """Column ``down`` of nodes says whether, that of failures who."""
    assert names_cell(Cell("down", True, {}, 8, BRAILLE, lambda _name: 0.0)) == [("yes", "")]
    assert names_cell(Cell("down", ["a-1", "a-2"], {}, 8, BRAILLE, lambda _name: 0.0)) == [("a-1, a-2", "")]
