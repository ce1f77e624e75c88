"""Makes the static sample: four hours of history as raw metrics, then the last two scrapes in native form.

``python -m sample_data.broker_load.make`` writes ``files/`` again; the same seed gives the same bytes.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from sample_data.broker_load.cluster import Simulation, put_documents, put_scrapes
from sample_data.whole_files import put

TICK_S = 720
TICKS = 20
"""History: one reading every twelve minutes over four hours, five in each window."""


def history(simulation: Simulation) -> str:
    """A raw-metrics CSV."""
    lines = ["time_ms,metric,broker,topic,partition,value"]
    for _ in range(TICKS):
        simulation.advance(TICK_S)
        lines += simulation.raw_rows()
    return "\n".join(lines) + "\n"


def write(target: Path) -> Simulation:
    """Write the whole sample below ``target``; return the simulation in its final state."""
    simulation = Simulation()
    put({target / "history" / "metrics.csv": history(simulation)})
    put_documents(simulation, target)
    for _ in range(3):
        simulation.advance(60)
        put_scrapes(simulation, target)
    return simulation


if __name__ == "__main__":
    files = Path(__file__).parent / "files"
    shutil.rmtree(files, ignore_errors=True)
    write(files)
