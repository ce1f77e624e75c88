"""Configuration files of jobs, and which job a file belongs to."""

from __future__ import annotations

import re
from typing import Any

from engine.core.reading import Document, Reading, Source
from engine.core.tables import Table
from engine.formats.hadoop_xml import BadXml, properties
from engine.job_heuristics.mapreduce.reading.event_collector import Collector, job_of
from engine.job_heuristics.mapreduce.tables import CONF

JOB_IN_NAME = re.compile(r"job_(?:local)?\d+_\d+")
_SOME_ID = re.compile(r"(?:job|appattempt|application)_(?:local)?\d+_\d+")
_NAMING_PROPERTIES = ("mapreduce.job.id", "mapreduce.job.application.attempt.id", "mapreduce.job.dir", "mapred.job.id")
"""Properties whose value holds the job id, most reliable first."""


RENAMED = {
    "mapred.reduce.slowstart.completed.maps": "mapreduce.job.reduce.slowstart.completedmaps",
    "mapred.job.map.memory.mb": "mapreduce.map.memory.mb",
    "mapred.job.reduce.memory.mb": "mapreduce.reduce.memory.mb",
    "mapred.job.queue.name": "mapreduce.job.queuename",
    "mapred.cache.files": "mapreduce.job.cache.files",
    "mapred.cache.files.filesizes": "mapreduce.job.cache.files.filesizes",
    "mapred.cache.archives": "mapreduce.job.cache.archives",
    "mapred.cache.archives.filesizes": "mapreduce.job.cache.archives.filesizes",
}
"""Properties looked up here that Hadoop 2 renames when it loads a configuration."""


class JobConf(Document):
    """``JOBID_conf.xml`` beside a history, or ``job.xml`` in a staging folder."""

    id = "job-conf"
    title = "Job configurations (JOBID_conf.xml)"
    tables: tuple[Table, ...] = (CONF,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise it by name: a Hadoop configuration whose name holds no job is a site file."""
        if name.endswith("_conf.xml") and JOB_IN_NAME.match(name):
            return True
        return (name == "job.xml" or name.endswith("_conf.xml")) and b"<configuration" in head

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the whole file; while it is malformed its last good version stays."""
        to = Collector(source.path)
        try:
            rows = properties(data, RENAMED)
        except BadXml as error:
            to.problem("bad-xml", str(error))
            reading = to.reading(0)
            reading.complete = False
            return reading
        named = {name: value for name, value, _ in rows if name in _NAMING_PROPERTIES}
        ids = [_SOME_ID.search(named.get(key, "")) for key in _NAMING_PROPERTIES]
        folders = reversed(source.path.split("/")[:-1])
        jobs = (job_in(source.name), *(job_of(match.group(0)) for match in ids if match), *map(job_in, folders))
        job = next(filter(None, jobs), None)
        if job is None:
            to.problem("no-job", "neither its name nor its content says which job it configures")
        to.conf = [(job, name, value, origin) for name, value, origin in rows]
        return to.reading(len(data))


def job_in(name: str) -> str | None:
    """Return the job id that a file or folder name begins with, or None."""
    match = JOB_IN_NAME.match(name)
    return match.group(0) if match else None
