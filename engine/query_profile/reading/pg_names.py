"""Read the names of PostgreSQL's roles and databases, which snapshots of statements have by id.

Source: the PostgreSQL documentation, "pg_roles", "pg_user" and "pg_database".
"""

from __future__ import annotations

from typing import Any

from engine.core.problems import Problem, not_utf8
from engine.core.reading import Reading, Source
from engine.core.tables import Table
from engine.core.text import clean
from engine.formats.delimited import header_fields, records
from engine.query_profile.tables import SERVER_NAMES

_COLUMNS = (("user", "oid", "rolname"), ("user", "usesysid", "usename"), ("database", "oid", "datname"))
"""What a table names, and its columns of ids and of names."""


class PgNames:
    """``COPY (SELECT oid, rolname FROM pg_roles) TO ... CSV HEADER``, and the same of ``pg_user`` and ``pg_database``."""

    id = "pg-names"
    title = "Names of PostgreSQL's roles or databases (CSV of pg_roles, pg_user, pg_database)"
    append = False
    version = 1
    tables: tuple[Table, ...] = (SERVER_NAMES,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise the columns of ids and names, without any that counts."""
        fields = set(header_fields(head))
        return any({number, text} <= fields for _, number, text in _COLUMNS) and "calls" not in fields

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one row per role or database."""
        reading = Reading()
        reading.problems += not_utf8(source.path, data)
        columns: dict[str, list[Any]] = {"what": [], "id": [], "name": []}
        for line, row in records(source, data, reading.problems, final):
            if row is None:
                continue
            for what, number, text in _COLUMNS:
                if number not in row or text not in row:
                    continue
                if not (row[number].isascii() and row[number].isdecimal() and row[text]):
                    reading.problems.append(Problem.at(source.path, "bad-row", "no id or no name", line=line))
                    continue
                for name, value in (("what", what), ("id", row[number]), ("name", clean(row[text]))):
                    columns[name].append(value)
        reading.rows["server_names"] = columns
        return reading
