"""Numbers that no server counts: their record is left out, or they are no times; nothing raises and nothing warns."""

from __future__ import annotations

import json
import warnings

import pytest

from engine.core.view import NoInput
from engine.output import report
from engine.query_profile.view import VIEW
from tests.contract.file_samples import SAMPLES
from tests.engine.query_profile.builders import capture, compute, snapshot

HUGE = "9" * 400
NUMBERS = ["1e308", "1e-320", HUGE, "-1", "NaN", "1e400", "9223372036854775808", "99999999999", "0"]

TEMPLATES = {
    "mpstat.json": '{"sysstat":{"hosts":[{"nodename":"a","number-of-cpus":%N,"date":"2026-01-01","statistics":['
    '{"timestamp":"00:00:05","cpu-load":[{"cpu":"all","usr":1.5,"idle":97.0}]},'
    '{"timestamp":"00:00:10","cpu-load":[{"cpu":"all","usr":%N,"idle":97.0}]}]}]}}',
    "sadf.json": '{"sysstat":{"hosts":[{"nodename":"a","statistics":['
    '{"timestamp":{"date":"2026-01-01","time":"00:01:00","interval":%N},"cpu-load":[{"cpu":"all","user":1.5,"idle":9}]},'
    '{"timestamp":{"date":"2026-01-01","time":"00:02:00","interval":60},"cpu-load":[{"cpu":"all","user":%N,"idle":9}]}]}]}}',
    "sadf.csv": "# hostname;interval;timestamp;CPU;%user;%nice;%system;%iowait;%steal;%idle\n"
    "a;%N;2026-01-01 00:01:00 UTC;-1;10;0;1;0;0;89\na;60;2026-01-01 00:02:00 UTC;-1;%N;0;1;0;0;89\n",
    "node-20260101T000000Z.prom": 'node_cpu_seconds_total{cpu="0",mode="user"} %N %N\n'
    'node_cpu_seconds_total{cpu="1",mode="system"} %N\n',
    "stat-20260101T000000Z.txt": "cpu  %N 2 3 4 5 6 7 8\ncpu0 1 2 3 4\n",
    "cpu2.csv": "captured_at,user_us,system_us\n%N,1,2\n2026-01-01T00:00:00Z,1,2\n2026-01-01T00:01:00Z,%N,4\n",
    "docker.json": '{"Name":"db","CPUPerc":"%N%"}\n{"Name":"db","Container":"x","CPUPerc":"1%"}\n',
    "vmstat.txt": SAMPLES["query-profile"]["vmstat"][1].decode().replace(" 94 ", " %N "),
    "digest.json": '{"classes":[{"checksum":"A","fingerprint":"a","query_count":%N,"ts_min":"%N",'
    '"metrics":{"Query_time":{"sum":"%N"},"Rows_sent":{"sum":"%N"},"Lock_time":{"sum":1}}}]}',
    "pgss.json": '[{"queryid":%N,"query":"a","calls":%N,"total_time":5.5,"rows":%N,"stats_since":"%N"}]',
    "info.csv": "captured_at,dealloc,stats_reset\n2026-01-01T00:01:00Z,%N,%N\n",
}


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", TEMPLATES)
def test_impossible_numbers(name: str, number: str) -> None:
    files = capture(*[snapshot((1, i, 5.0 * i), (2, 10 * i, 7.0 * i)) for i in range(4)])
    text = TEMPLATES[name].replace("%N", number).encode()
    for given in ({name: text}, {**files, name: text}):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ResourceWarning)  # files of other tests, collected meanwhile
            try:
                result = compute(given, draws="0")
            except NoInput:
                continue
            json.loads(report.to_json(VIEW, result, VIEW.parameters(), 0))
