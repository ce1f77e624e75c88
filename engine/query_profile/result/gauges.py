"""What of the query profile goes on to Prometheus: the work of each class in the window, never its text."""

from __future__ import annotations

from engine.output.exposition import US, Gauge

_CLASS = {"queryid": "class", "database": "database"}

GAUGES = (
    Gauge("query_cpu_seconds", "classes", "y_total", "CPU (or the chosen resource) of the class in the window.", _CLASS, US,
          adds=True),
    Gauge("query_cpu_measured_seconds", "classes", "cpu_measured_us", "CPU of the class as the server measured it.", _CLASS, US,
          adds=True),
    Gauge("query_time_seconds", "classes", "x_total", "Elapsed time of the class in the window.", _CLASS, US, adds=True),
    Gauge("query_calls", "classes", "calls", "Executions in the window.", _CLASS, adds=True),
)  # fmt: skip
