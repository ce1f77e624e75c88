from __future__ import annotations

from pathlib import Path

from tests.engine.broker_load.clusters import KB, T0, simple
from tests.engine.broker_load.inputs import compute, read


def test_a_broker_whose_scrapes_stopped_is_a_finding(tmp_path: Path) -> None:
    cluster = simple(tmp_path)
    for minute in range(1, 8):
        for broker, topic in ((1, "t"), (2, "u")):
            cluster.rate(broker, topic, 100 * KB, 200 * KB, time=T0 + minute * 60_000)
            cluster.totals(broker, 0.5, time=T0 + minute * 60_000)
    folder = cluster.write()
    result = compute(read(*sorted(folder.iterdir())), ("sampling-interval-s", "60"))
    silent = [finding for finding in result.findings if finding.text.startswith("silent: ")]
    assert [(finding.level, finding.subject) for finding in silent] == [("moderate", "broker 3")]
    assert silent[0].text == "silent: last heard 420 s before the newest reading"
    assert silent[0].row == ("ledger", ("stale-scrape", "broker 3"))
