"""YAML as a tree of texts with line numbers: aliases share a node and are never expanded, and no tag makes an object.

Sources: the YAML 1.1 and 1.2 specifications; parsing is libyaml's or PyYAML's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import msgspec
import yaml

DEEPEST = 60  # levels of nesting that are read; deeper nodes are empty texts
_TOO_DEEP = 300  # levels of nesting beyond which a text is refused: parsing time grows with the depth
MOST_NODES = 200_000  # values that are read, which takes about a second and 100 MB
_LONGEST = 200  # characters of a number, flag or time: YAML's numbers in base 60 take quadratic time

_TAGS = "tag:yaml.org,2002:"


class BadYaml(ValueError):
    """Raised for text that is no YAML; ``line`` is 1-based, None where it is not known."""

    def __init__(self, reason: str, line: int | None) -> None:
        super().__init__(reason)
        self.line = line


class Node(msgspec.Struct, eq=False):
    """A node. ``text``: of a scalar; ``pairs``: keys and values of a mapping, ``merged`` what it merges (``<<``); ``items`` of a
    list. ``line`` is 1-based, ``tag`` the one written or implied, of a scalar."""

    kind: Literal["scalar", "mapping", "list"]
    line: int
    text: str = ""
    tag: str = ""
    pairs: Sequence[tuple[Node, Node]] = ()
    merged: Sequence[Node] = ()
    items: Sequence[Node] = ()

    @property
    def is_null(self) -> bool:
        """Whether it is a null, such as an empty value."""
        return self.kind == "scalar" and self.tag == _TAGS + "null"

    def value(self) -> Any:
        """Convert a scalar by YAML's own types. Returns None where it has no such value (also for mappings and lists)."""
        if self.kind != "scalar" or not self.tag.startswith(_TAGS):
            return None
        if self.tag != _TAGS + "str" and (len(self.text) > _LONGEST or (":" in self.text and "-" not in self.text)):
            return self.text  # numbers in base 60 are texts for everyone but YAML 1.1
        try:
            return _SCALARS.construct_document(yaml.ScalarNode(self.tag, self.text))
        except (yaml.YAMLError, ValueError, KeyError, AttributeError, OverflowError):
            return None


class _Scalars(yaml.constructor.SafeConstructor, yaml.resolver.Resolver):
    """Implied tags of scalars, and the values that tags give them."""

    def __init__(self) -> None:
        yaml.constructor.SafeConstructor.__init__(self)
        yaml.resolver.Resolver.__init__(self)


_SCALARS = _Scalars()
_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's parser is some twenty times faster


def documents(text: str, complain: Callable[[str, int], None], budget: Iterator[int] | None = None) -> list[Node]:
    """Parse the documents of ``text``. ``complain`` takes what is left out (the reason and a 1-based line), also what is no YAML
    behind whole documents; ``budget`` gives an item for each value that may be read, else ``MOST_NODES``. Raises BadYaml."""
    budget = iter(range(MOST_NODES)) if budget is None else budget
    found: list[Node] = []
    try:
        for node in _Composer(yaml.parse(text, Loader=_PARSER), complain, budget).documents():
            found.append(node)  # noqa: PERF402
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        if not found or mark is None:
            raise BadYaml(str(reason), mark.line + 1 if mark is not None else None) from None
        complain(f"is not YAML: {reason}", mark.line + 1)
    return found


class _Composer:
    """Builds nodes from parser events."""

    def __init__(self, events: Iterator[Any], complain: Callable[[str, int], None], budget: Iterator[int]) -> None:
        self._events = events
        self._complain, self._budget = complain, budget
        self._anchors: dict[str, Node] = {}

    def documents(self) -> Iterator[Node]:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
                yield self._node(next(self._events), 1)

    def _node(self, event: Any, depth: int) -> Node:
        line = event.start_mark.line + 1
        if next(self._budget, None) is None:
            raise yaml.MarkedYAMLError(
                problem=f"more than {MOST_NODES:,} values are not read", problem_mark=event.start_mark
            )
        if isinstance(event, yaml.AliasEvent):
            # An alias of an enclosing node would make a cycle: only complete nodes can be named.
            node = self._anchors.get(event.anchor or "")
            if node is None:
                self._complain(f"alias *{event.anchor} names nothing that stands before it", line)
                return Node("scalar", line, tag=_TAGS + "null")
            return node
        if isinstance(event, yaml.ScalarEvent):
            tag = event.tag
            if tag in (None, "!"):
                tag = _SCALARS.resolve(yaml.ScalarNode, event.value, event.implicit)  # type: ignore[no-untyped-call]
            node = Node("scalar", line, event.value, tag)
        elif depth > DEEPEST:
            self._skip(line)
            return Node("scalar", line)
        elif isinstance(event, yaml.MappingStartEvent):
            pairs: list[tuple[Node, Node]] = []
            merged: list[Node] = []
            for event_of_key in self._until(yaml.MappingEndEvent):
                key, value = self._node(event_of_key, depth + 1), self._node(next(self._events), depth + 1)
                if key.tag == _TAGS + "merge":
                    parts = value.items if value.kind == "list" else [value]
                    merged += (part for part in parts if part.kind == "mapping")
                else:
                    pairs.append((key, value))
            node = Node("mapping", line, pairs=pairs, merged=merged)
        else:
            items = [self._node(item, depth + 1) for item in self._until(yaml.SequenceEndEvent)]
            node = Node("list", line, items=items)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _until(self, end: type) -> Iterator[Any]:
        for event in self._events:
            if isinstance(event, end):
                return
            yield event

    def _skip(self, line: int) -> None:
        """Skip the mapping or list that has just begun."""
        self._complain(f"more than {DEEPEST} levels deep: not read", line)
        depth = 1
        for event in self._events:
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > _TOO_DEEP:
                    raise yaml.YAMLError("nested too deeply")
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
                if depth == 0:
                    return
