"""The lines of ``loadlens feeds`` run against real servers for a minute, and the view's question asked of what they wrote.

Servers are Debian's packages (``postgresql``, ``mariadb-server``, ``prometheus``, ``prometheus-node-exporter``,
``prometheus-postgres-exporter``, ``sysstat``), found in PATH, below /usr/lib/postgresql, or in the folder that
``LOADLENS_SERVERS`` names (packages unpacked by ``dpkg -x``). They listen on loopback only, and are ended by their ids. The truth
is the kernel's: the CPU of each backend or thread from /proc. A control group is made where this may be done, and what
``systemctl show`` answers is its place.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tui.__main__ import main
from tui.cli.feeds import lines

UNPACKED = os.environ.get("LOADLENS_SERVERS", "/nonexistent")
PLACES = [
    f"{UNPACKED}/usr/bin",
    f"{UNPACKED}/usr/sbin",
    *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin"))),
    "/usr/sbin",
    "/usr/bin",
]
MINUTE, STEP_S = 60, 2.5
HZ = os.sysconf("SC_CLK_TCK")


def program(name: str) -> str:
    """The path of a program; skips the test where it is not installed."""
    found = shutil.which(name, path=os.pathsep.join([*PLACES, os.environ.get("PATH", "")]))
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def feed(word: str, folder: Path, prometheus: str | None = None) -> str:
    """The command of ``loadlens feeds query-profile`` that holds ``word``, as a crontab would run it."""
    found = [
        line
        for line in lines("query-profile", prometheus, str(folder))
        if word in line and not line.startswith("# for")
    ]
    commands = [line.removeprefix("# ") for line in found if line.removeprefix("# ")[:1] in "*pcma"]
    return commands[-1].removeprefix("* * * * * ").removeprefix("*/5 * * * * ").replace("\\%", "%")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Servers:
    """Processes that end with the test; they run as another user where the test is root's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "LD_LIBRARY_PATH": f"{UNPACKED}/usr/lib/x86_64-linux-gnu",
            "PATH": os.pathsep.join([str(folder / "bin"), *PLACES, os.environ["PATH"]]),
        }
        self.running: list[subprocess.Popen[bytes]] = []
        self.user = "nobody" if os.getuid() == 0 else None
        folder.chmod(0o755)
        (folder / "bin").mkdir()
        self.group: Path | None = None

    def own(self, path: Path) -> Path:
        """Make a folder that the servers may write to."""
        path.mkdir(parents=True, exist_ok=True)
        if self.user:
            os.chown(path, pwd.getpwnam(self.user).pw_uid, -1)
        return path

    def start(self, *words: str, log: str = "log") -> subprocess.Popen[bytes]:
        with (self.folder / log).open("ab") as out:
            one = subprocess.Popen(words, stdout=out, stderr=out, env=self.environment, user=self.user, cwd=self.folder)
        self.running.append(one)
        return one

    def run(self, *words: str, **more: Any) -> str:
        done = subprocess.run(
            words, env=self.environment, user=self.user, cwd=self.folder, text=True, capture_output=True, **more
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    def shell(self, command: str) -> None:
        """Run a line of the feeds, as root or whoever tests."""
        done = subprocess.run(
            ["bash", "-c", command], env=self.environment, cwd=self.folder, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}: {done.stderr[-500:]}"

    def control_group(self, leader: int) -> bool:
        """Put a process and its children into a control group of their own, whose place ``systemctl show`` tells."""
        root = Path("/sys/fs/cgroup/unified") if Path("/sys/fs/cgroup/unified").is_dir() else Path("/sys/fs/cgroup")
        place = root / f"loadlens-{os.getpid()}-{leader}"
        try:
            place.mkdir()
            for pid in family(leader):
                with contextlib.suppress(ProcessLookupError):  # ended meanwhile
                    (place / "cgroup.procs").write_text(str(pid))
            if not (place / "cpu.stat").read_text().startswith("usage_usec"):
                raise OSError("no version 2")
        except OSError:
            with contextlib.suppress(OSError):
                place.rmdir()
            return False
        self.group = place
        answer = self.folder / "bin" / "systemctl"
        answer.write_text(f"#!/bin/sh\necho {str(place).removeprefix('/sys/fs/cgroup')}\n")
        answer.chmod(0o755)
        return True

    def close(self) -> None:
        for one in reversed(self.running):
            one.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.wait(20)
            if one.poll() is None:
                one.kill()
        if self.group is not None:
            for _ in range(50):
                with contextlib.suppress(OSError):
                    self.group.rmdir()
                    break
                time.sleep(0.1)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    for parent in tmp_path.parents[:2]:  # pytest's own folders, closed to other users
        with contextlib.suppress(OSError):
            parent.chmod(0o755)
    found = Servers(tmp_path)
    yield found
    found.close()


def family(leader: int) -> list[int]:
    """A process and its children."""
    children = Path(f"/proc/{leader}/task/{leader}/children")
    return [leader, *(int(pid) for pid in (children.read_text().split() if children.exists() else ()))]


def cpu_s(stat: Path) -> float:
    """Seconds of user and system time of a process or thread."""
    try:
        fields = stat.read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / HZ


def patiently(servers: Servers, ready: Callable[[], bool]) -> None:
    for _ in range(100):
        with contextlib.suppress(Exception):
            if ready():
                return
        time.sleep(0.2)
    pytest.fail(f"no answer: {(servers.folder / 'log').read_text()[-1000:]}")


def watch(steps: list[Callable[[], None]], seconds: float = MINUTE) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begin = time.monotonic()
        for step in steps:
            step()
        time.sleep(max(0.0, STEP_S - (time.monotonic() - begin)))


def report(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    """What ``loadlens report`` says of a folder."""
    capsys.readouterr()
    assert main(["report", "query-profile", str(folder), "--no-cache", *(w for o in options for w in ("-o", o))]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def plain(query: str) -> str:
    return query.lower().replace("`", "").replace(" ", "")


def by_text(answer: dict[str, Any], column: str, *texts: str) -> list[float]:
    rows = answer["tables"]["classes"]
    return [sum(row[column] or 0 for row in rows if text in plain(row["query"])) for text in texts]


TEXTS = ("sum(sqrt", "abalancefrom", "pg_sleep")


def test_postgresql(servers: Servers, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    postgres, port, data = program("postgres"), str(free_port()), servers.own(tmp_path / "data")
    servers.run(program("initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "--no-sync")
    options = {
        "port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": str(tmp_path / "data"), "fsync": "off",
        "shared_preload_libraries": "pg_stat_statements", "logging_collector": "on", "log_destination": "stderr,csvlog,jsonlog",
        "log_directory": str(servers.own(tmp_path / "logs")), "log_min_duration_statement": "0", "log_timezone": "CET",
        "log_line_prefix": "%m [%p] %q%u@%d ",
    }  # fmt: skip
    leader = servers.start(
        postgres, "-D", str(data), *(word for k, v in options.items() for word in ("-c", f"{k}={v}"))
    )
    servers.environment |= {"PGHOST": "127.0.0.1", "PGPORT": port, "PGUSER": "postgres", "PGDATABASE": "postgres"}
    psql = program("psql")
    patiently(servers, lambda: servers.run(psql, "-qAtc", "select 1").strip() == "1")
    servers.run(program("pgbench"), "-i", "-s", "2", "-q", "postgres")
    servers.run(psql, "-qc", "create extension pg_stat_statements")
    own = servers.control_group(leader.pid)
    scripts = (
        "select sum(sqrt(g)) from generate_series(1, 20000 + :r) g;",
        "select abalance from pgbench_accounts where aid = :r;",
        "select pg_sleep(0.05);",
    )
    turns = ((20, 300, 40), (2, 20, 400), (10, 200, 15))
    for i, (script, (busy, idle, length)) in enumerate(zip(scripts, turns, strict=True)):
        # each kind is busy and idle in turns of its own length, so that they can be told apart
        pause = f"\\if (:n / {length}) % 2 = 0\n\\sleep {busy} ms\n\\else\n\\sleep {idle} ms\n\\endif\n"
        (tmp_path / f"{i}.sql").write_text(f"\\set r random(1, 100000)\n{script}\n\\set n :n + 1\n{pause}")
        servers.environment["PGAPPNAME"] = f"kind{i}"
        servers.start(
            program("pgbench"), "-n", "-D", "n=0", "-f", str(tmp_path / f"{i}.sql"), "-T", str(2 * MINUTE), "postgres"
        )
    servers.environment["PGAPPNAME"] = "watcher"
    time.sleep(3)
    ask = "select application_name, pid from pg_stat_activity where application_name like 'kind%' order by 1"
    pids = [int(line.split("|")[1]) for line in servers.run(psql, "-qAtc", ask).split()]
    folder, logs = servers.own(tmp_path / "metrics"), tmp_path / "both"
    cpu = (
        feed("ControlGroup", folder)
        if own
        else f"cat /proc/{leader.pid}/stat "
        + " ".join(f"/proc/{pid}/stat" for pid in pids)
        + f" > {folder}/pidstat-$(date +%s).txt"
    )
    snapshots = feed("pg_stat_statements s", folder)
    first = [cpu_s(Path(f"/proc/{pid}/stat")) for pid in pids]
    watch([lambda: servers.shell(f"{snapshots}; {cpu}")])
    truth = [cpu_s(Path(f"/proc/{pid}/stat")) - begin for pid, begin in zip(pids, first, strict=True)]

    answer = report(folder, capsys)
    found = [value / 1e6 for value in by_text(answer, "y_total", *TEXTS)]
    # intervals with a doubt are left out, so shares are compared
    shares = [(a / sum(found), b / sum(truth)) for a, b in zip(found, truth, strict=True)]
    off = sum(abs(a - b) for a, b in shares)
    print(
        f"\nPostgreSQL: measured {truth}, found {found}, {off:.0%} elsewhere, trust {answer['summary']['trust_grade']}, own {own}"
    )
    assert answer["summary"]["intervals_used"] >= 20 and not [p for p in answer["problems"] if p["kind"] != "pg-noise"]
    assert found.index(max(found)) == truth.index(max(truth)) == 0 and off < 0.5
    calls = by_text(answer, "calls", *TEXTS)
    for kind in ("log", "csv", "json"):  # the same statements in each form of the log
        one = logs / kind
        one.mkdir(parents=True)
        for path in (tmp_path / "logs").glob(f"*.{kind}"):
            shutil.copy(path, one)
        for path in folder.glob("cpu*"):
            shutil.copy(path, one)
        logged = report(one, capsys)
        assert logged["summary"]["intervals_used"] >= 15 or not own
        got = by_text(logged, "calls", *TEXTS)
        assert all(abs(a - b) <= 0.15 * b for a, b in zip(got, calls, strict=True)), (kind, got, calls)


def test_mariadb(servers: Servers, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server, port, data = program("mariadbd"), str(free_port()), servers.own(tmp_path / "data")
    client = program("mariadb")
    share = Path(f"{UNPACKED}/usr") if server.startswith(UNPACKED) else Path("/usr")
    common = [
        "--no-defaults",
        f"--tmpdir={servers.own(tmp_path / 'temporary')}",
        f"--datadir={data}",
        f"--basedir={share}",
    ]
    servers.run(program("mariadb-install-db"), *common, "--auth-root-authentication-method=normal", "--skip-test-db")
    leader = servers.start(
        server, *common, f"--port={port}", "--bind-address=127.0.0.1", f"--socket={data}/s", "--performance-schema=on",
        "--skip-grant-tables", "--slow-query-log=1", "--long-query-time=0", "--log-output=TABLE", "--skip-log-bin",
        "--performance-schema-instrument=statement/%=ON", "--performance-schema-consumer-statements-digest=ON",
    )  # fmt: skip
    (tmp_path / "bin" / "mariadb").write_text(
        f'#!/bin/sh\nexec {client} --no-defaults -h 127.0.0.1 -P {port} -u root "$@"\n'
    )
    (tmp_path / "bin" / "mariadb").chmod(0o755)
    patiently(servers, lambda: servers.run("mariadb", "-Nse", "select 1").strip() == "1")
    servers.run("mariadb", "-e", "create database shop; use shop; create table shop.t (id int primary key, v double);"
                "insert into shop.t select seq, sqrt(seq) from seq_1_to_20000")  # fmt: skip
    own = servers.control_group(leader.pid)
    kinds = (("select sum(sqrt(v + 1)) from shop.t;", "0.05", 5), ("select v from shop.t where id = 7;", "0.03", 8),
             ("select sleep(0.1);", "0.1", 13))  # fmt: skip
    for statement, pause, length in kinds:  # busy and idle in turns of some seconds
        loop = f"if [ $(( SECONDS / {length} % 2 )) = 0 ]; then echo '{statement}'; sleep {pause}; else sleep 0.5; fi"
        servers.start("timeout", str(2 * MINUTE), "bash", "-c", f"while :; do {loop}; done | mariadb -N > /dev/null")
        time.sleep(1)
    ask = "select tid from information_schema.processlist where tid > 0 and id <> connection_id() order by id desc limit 3"
    threads = servers.run("mariadb", "-Nse", ask).split()[::-1]
    tasks = [Path(f"/proc/{leader.pid}/task/{thread}/stat") for thread in threads]
    folder, table = servers.own(tmp_path / "metrics"), servers.own(tmp_path / "table")
    cpu = feed("ControlGroup", folder) if own else f"cat /proc/{leader.pid}/stat > {folder}/pidstat-$(date +%s).txt"
    digest = feed("events_statements_summary_by_digest", folder)
    first, begin = cpu_s(Path(f"/proc/{leader.pid}/stat")), [cpu_s(task) for task in tasks]
    watch([lambda: servers.shell(f"{digest}; {cpu}")])
    truth = [cpu_s(task) - earlier for task, earlier in zip(tasks, begin, strict=True)]
    whole = cpu_s(Path(f"/proc/{leader.pid}/stat")) - first
    answer = report(folder, capsys)
    names = ("sum(sqrt", "selectvfrom", "sleep")
    found = [value / 1e6 for value in by_text(answer, "y_total", *names)]
    print(
        f"\nMariaDB: {whole:.2f} s and {truth} measured, {found} of {answer['summary']['y_measured'] / 1e6:.2f} s found, {own}"
    )
    assert abs(answer["summary"]["y_measured"] / 1e6 - whole) <= 0.2 * whole
    assert found.index(max(found)) == truth.index(max(truth)) and found.index(min(found)) == 2
    servers.shell(feed("mysql.slow_log", table))
    logged = report(table, capsys)
    assert by_text(logged, "calls", "sum(sqrt")[0] >= 100


def test_prometheus(servers: Servers, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port, node = free_port(), free_port()
    servers.own(tmp_path / "db")
    servers.start(program("prometheus-node-exporter"), f"--web.listen-address=127.0.0.1:{node}")
    (tmp_path / "p.yml").write_text(
        "global: {scrape_interval: 2s}\nscrape_configs:\n- job_name: node\n  static_configs:\n"
        f"  - targets: ['127.0.0.1:{node}']\n    labels: {{instance: db1}}\n"
    )
    servers.start(program("prometheus"), f"--config.file={tmp_path / 'p.yml'}", f"--storage.tsdb.path={tmp_path / 'db'}",
                  f"--web.listen-address=127.0.0.1:{port}")  # fmt: skip
    base, folder = f"http://127.0.0.1:{port}", servers.own(tmp_path / "metrics")
    query = f"{base}/api/v1/query?query=count(node_cpu_seconds_total)"
    patiently(servers, lambda: b'"result":[{' in urllib.request.urlopen(query).read())
    begin = time.time()
    calls = 0
    for step in range(int(MINUTE / STEP_S)):
        calls += 10 * (step % 3 + 1)
        (folder / f"db1-pgss-{time.time():.3f}.csv").write_text(
            f"queryid,query,calls,total_exec_time\n1,SELECT 1,{calls},{calls * 10}\n"
        )
        time.sleep(STEP_S)
    servers.shell(feed("node_cpu_seconds_total", folder, base))
    answer = report(folder, capsys)
    seconds = time.time() - begin
    print(f"\nPrometheus: {answer['summary']['y_measured'] / 1e6:.2f} s CPU of the host in {seconds:.0f} s")
    assert answer["summary"]["y_source"].startswith("node_exporter") and answer["summary"]["intervals_used"] >= 15
    assert 0 < answer["summary"]["y_measured"] / 1e6 <= seconds * (os.cpu_count() or 1)
