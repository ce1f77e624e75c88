"""Series of Prometheus and its relatives in all forms they are handed on: one reader for every view.

Text expositions, ``/federate``, OpenMetrics and ``promtool tsdb dump`` (``text``), answers of the HTTP API and
VictoriaMetrics' export lines (``answers``), its CSV export (``tables``); ``series`` tells them apart by content, and
says what was saved in their place.
"""
