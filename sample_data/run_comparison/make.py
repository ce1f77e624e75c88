"""Make the sample: two jobs of a scale test in the Kubernetes CI's layout, and some other tools' outputs beside them.

``python -m sample_data.run_comparison.make`` writes all of ``files/``; random numbers are seeded.
"""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

JOBS = ("scale-100-cluster", "scale-100-simulated")
"""A test on a real cluster and the same test on simulated nodes."""
FIRST = 2_068_700_000_000_000_000
STEP = 86_400_000_000_000
"""Run numbers: 19 digits, a day apart."""
START = 1_784_000_000

CALLS = (
    ("GET", "pods", "resource", 22.0), ("LIST", "pods", "cluster", 180.0), ("LIST", "pods", "namespace", 35.0),
    ("POST", "pods", "resource", 48.0), ("PUT", "nodes", "resource", 30.0), ("LIST", "nodes", "cluster", 90.0),
    ("GET", "services", "resource", 12.0), ("LIST", "events", "cluster", 140.0), ("DELETE", "pods", "resource", 55.0),
    ("PATCH", "nodes", "resource", 26.0),
)  # fmt: skip
"""Verb, resource, scope and median latency in ms on the real cluster."""

SIMULATED = {("LIST", "nodes"): 1.7, ("PUT", "nodes"): 1.25, ("LIST", "events"): 0.5}
"""How the simulated cluster differs: one clear difference, one real but small, one for the better."""

PHASES = {"create_to_schedule": 40.0, "schedule_to_run": 1300.0, "run_to_watch": 600.0, "pod_startup": 1950.0}


@dataclass(frozen=True)
class Mood:
    """Exceptional runs: a factor on every latency, and whether the run fails."""

    factor: float = 1.0
    result: str | None = "SUCCESS"


def stamp(seconds: int) -> str:
    """Format a time as in ClusterLoader2's file names."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _item(
    labels: dict[str, str], median: float, rng: random.Random, spread: float, full: bool = False
) -> dict[str, Any]:
    run = median * rng.lognormvariate(0, spread)
    data = {"Perc50": run, "Perc90": run * rng.uniform(1.9, 2.3), "Perc99": run * rng.uniform(3.4, 5.0)}
    if full:
        data["Perc100"] = data["Perc99"] * rng.uniform(1.0, 1.4)
    return {"data": {k: round(v, 6) for k, v in data.items()}, "unit": "ms", "labels": labels}


def reports(side: int, number: int, seconds: int, mood: Mood, rng: random.Random) -> dict[str, str]:
    """Return the report files of one run by name."""
    found: dict[str, Any] = {}
    when = stamp(seconds + 3000)
    for test, load in (("density", 0.8), ("load", 1.0)):
        items = []
        for verb, resource, scope, median in CALLS:
            factor = mood.factor * load * (SIMULATED.get((verb, resource), 1.0) if side else 1.0)
            labels = {
                "Count": str(rng.randint(40, 4000)), "Resource": resource, "Scope": scope,
                "SlowCount": "0", "Subresource": "", "Verb": verb,
            }  # fmt: skip
            items.append(_item(labels, median * factor, rng, 0.12))
        found[f"APIResponsiveness_{test}_{when}.json"] = {"version": "v1", "dataItems": items}
        found[f"APIResponsivenessPrometheus_simple_{test}_{when}.json"] = {
            "version": "v1",
            "dataItems": [
                {**item, "data": {k: round(v * rng.uniform(0.95, 1.05), 6) for k, v in item["data"].items()}}
                for item in items
            ],
        }
        phases = [
            _item({"Metric": name}, median * mood.factor * load, rng, 0.08, name == "pod_startup")
            for name, median in PHASES.items()
        ]
        found[f"PodStartupLatency_PodStartupLatency_{test}_{when}.json"] = {"version": "1.0", "dataItems": phases}
    found[f"SchedulingThroughput_load_{when}.json"] = {
        "perc50": round(rng.uniform(90, 110) / mood.factor, 3), "perc90": round(rng.uniform(110, 120) / mood.factor, 3),
        "perc99": round(rng.uniform(118, 125) / mood.factor, 3), "max": round(rng.uniform(120, 130) / mood.factor, 3),
    }  # fmt: skip
    components = (
        "kube-apiserver-master",
        "etcd-master",
        "kube-scheduler-master",
        f"coredns-7d9{number % 7}bcd-x2k{number % 9}z",
    )
    found[f"ResourceUsageSummary_load_{when}.json"] = {
        percentile: [
            {
                "Name": f"{name}/{name.split('-')[0]}",
                "CPU": round(share * rng.uniform(0.5, 0.7) * (1 + at / 3), 6),
                "Mem": int(3e8 * (1 + at) * share * rng.uniform(0.95, 1.05)),
            }
            for at, name in enumerate(components)
        ]
        for percentile, share in (("50", 1.0), ("90", 1.4), ("99", 1.8), ("100", 2.0))
    }
    return {name: json.dumps(document, indent=1) for name, document in found.items()}


def started(seconds: int) -> str:
    """Return the text of ``started.json``."""
    return json.dumps({"timestamp": seconds, "node": "worker-3"})


def finished(seconds: int, result: str) -> str:
    """Return the text of ``finished.json``."""
    return json.dumps({"timestamp": seconds, "result": result, "passed": result == "SUCCESS"})


def write_run(target: Path, side: int, index: int, mood: Mood, rng: random.Random) -> Path:
    """Write a whole run below ``target``; return its folder."""
    number, seconds = FIRST + index * STEP + side * 1_111, START + index * 86_400 + side * 1_800
    folder = target / JOBS[side] / str(number)
    (folder / "artifacts").mkdir(parents=True, exist_ok=True)
    (folder / "started.json").write_text(started(seconds))
    for name, text in reports(side, number, seconds, mood, rng).items():
        (folder / "artifacts" / name).write_text(text)
    if mood.result is not None:
        (folder / "finished.json").write_text(finished(seconds + 3600, mood.result))
    return folder


def moods(side: int) -> list[Mood]:
    """Write the runs of the static sample: a failed one, one that stands out, and the newest still going on."""
    plain = [Mood() for _ in range(9)]
    plain[3] = Mood(1.0, "FAILURE")
    if side:
        plain[5] = Mood(3.2)
    plain[8] = Mood(1.0, None)
    return plain


def write_tools(target: Path) -> None:
    """Write other tools' outputs: hyperfine and Go benchmarks of two versions, a CSV history with a step, k6 summaries."""
    rng = random.Random(5)
    for version, factor in (("v1.4", 1.0), ("v1.5", 1.18)):
        for run in range(1, 6):
            folder = target / "tools" / version / str(run)
            folder.mkdir(parents=True, exist_ok=True)
            results = []
            for command, base in (("compact --level 3", 0.42), ("verify segment", 0.11)):
                slow = factor if command.startswith("compact") else 1.0
                times = [round(base * slow * rng.lognormvariate(0, 0.05), 6) for _ in range(8)]
                mean = sum(times) / len(times)
                results.append({
                    "command": command, "mean": mean, "stddev": 0.02, "median": sorted(times)[4], "user": mean * 0.8,
                    "system": mean * 0.1, "min": min(times), "max": max(times), "times": times, "exit_codes": [0] * 8,
                })  # fmt: skip
            (folder / "hyperfine.json").write_text(json.dumps({"results": results}, indent=1))
            lines = ["goos: linux", "goarch: amd64", "pkg: example.org/segment"]
            for name, base in (("Decode/size=4k", 3900.0), ("Encode", 7200.0)):
                slow = factor if name == "Encode" else 1.0
                allocated = 1280 if name == "Encode" else 64
                for _ in range(4):
                    ns = base * slow * rng.lognormvariate(0, 0.04)
                    lines.append(f"Benchmark{name}-8\t{rng.randint(20000, 40000)}\t{ns:.1f} ns/op\t{allocated} B/op")
            (folder / "bench.txt").write_text("\n".join([*lines, "PASS", ""]))
    history = ["time,commit,latency (ms),throughput (ops/s)"]
    for day in range(60):
        level = 21.0 if day < 38 else 26.5
        when = datetime.fromtimestamp(START + day * 86_400, UTC).strftime("%Y-%m-%d %H:%M:%S")
        history.append(
            f"{when},c{day:03},{level * rng.lognormvariate(0, 0.03):.3f},{9000 * rng.lognormvariate(0, 0.02):.1f}"
        )
    (target / "tools" / "nightly.csv").write_text("\n".join([*history, ""]))


def write_all(target: Path) -> None:
    """Write the whole static sample below ``target``."""
    for side in (0, 1):
        rng = random.Random(20 + side)
        for index, mood in enumerate(moods(side)):
            write_run(target, side, index, mood, rng)
    write_tools(target)


if __name__ == "__main__":
    files = Path(__file__).parent / "files"
    shutil.rmtree(files, ignore_errors=True)
    write_all(files)
