"""Play the sample as running write paths: rates change, a Pyroscope writer restarts, another is lost and comes back; in a
Mimir cluster beside it zones restart one after the other, and an ingester crashes."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from engine.ring_placement.pyroscope.ring import Member
from sample_data.ring_placement import mimir
from sample_data.ring_placement.make import Cluster, pages, segment
from sample_data.whole_files import put

STEP_S = 15.0
"""Seconds between two looks at the clusters."""
RESTART = range(3, 7)
"""Steps during which one writer is LEAVING and then JOINING."""
LOST = range(9, 14)
"""Steps during which one writer sends no heartbeat: unhealthy at once (time is played fast), then forgotten."""
SEGMENTS = 4
"""Most segments on disk at a time."""
ROUND = 18
"""Steps until the story repeats."""
ZONE_RESTART = range(2, 6)
"""Steps during which a zone of the Mimir cluster restarts: LEAVING, then JOINING; the next zone in the next round."""
CRASHED = range(10, 15)
"""Steps during which one of its ingesters sends no heartbeat and stays registered."""


def steps(target: Path) -> Iterator[float]:
    """Write the starting files below ``target``, then make one change per ``next()``; yields seconds to wait. Never ends."""
    files = Path(__file__).parent / "files"
    if files.is_dir():
        shutil.copytree(files / "segments", target / "segments", dirs_exist_ok=True)
    rng = random.Random(11)
    cluster = Cluster.fresh(now_s=int(time.time()))
    series = mimir.fresh_series()
    made = pages(cluster, target) | mimir.pages(mimir.ingesters(cluster.now_s), series, cluster.now_s, target)
    put(made)
    yield 1.0
    number = 0
    written = sorted(target.glob("segments/**/block.bin"))
    while True:
        number += 1
        turn = number % ROUND
        cluster.now_s = max(cluster.now_s, int(time.time()))
        for key, rate in cluster.rates.items():
            cluster.rates[key] = max(1000.0, rate * rng.lognormvariate(0, 0.06))
        cluster.members = [_at(m, turn, cluster.now_s) for m in Cluster.fresh(now_s=cluster.now_s).members]
        if LOST.start + 2 <= turn < LOST.stop:
            # Forgotten: the ring is laid out without it.
            cluster.members = [m for m in cluster.members if m.id != "segment-writer-4"]
        for tenant, count in series.items():
            series[tenant] = max(1000.0, count * rng.lognormvariate(0, 0.01))
        before, made = made, pages(cluster, target)
        made |= mimir.pages(_ingesters(number, cluster.now_s), series, cluster.now_s, target, number)
        put({path: data for path, data in made.items() if data != before[path]})
        if number % 2 == 0:
            _, stats = cluster.placement()
            name, data = segment(cluster, stats, 1 + number % 24, number)
            put({target / name: data})
            written.append(target / name)
        while len(written) > SEGMENTS:
            # Compaction removes segments soon after they are written.
            written.pop(0).unlink(missing_ok=True)
        yield STEP_S


def _ingesters(number: int, now_s: int) -> list[mimir.Ingester]:
    """Return Mimir's ingesters at step ``number``."""
    turn, members = number % ROUND, mimir.ingesters(now_s)
    if turn in ZONE_RESTART:
        zone = mimir.ZONES[number // ROUND % len(mimir.ZONES)]
        members = mimir.restarting(members, zone, "LEAVING" if turn < ZONE_RESTART.start + 2 else "JOINING")
    if turn in CRASHED:
        members = [replace(m, beat_s=now_s - 300) if m.id == "ingester-zone-b-2" else m for m in members]
    return members


def _at(member: Member, turn: int, now_s: int) -> Member:
    if member.id == "segment-writer-7" and turn in RESTART:
        return replace(member, state="LEAVING" if turn < RESTART.start + 2 else "JOINING")
    if member.id == "segment-writer-4" and turn in LOST:
        return replace(member, heartbeat_s=now_s - 90)
    return member
