"""YAML as a tree: values, aliases, merges and what is refused."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from engine.formats import yaml_tree
from engine.formats.yaml_tree import DEEPEST, BadYaml, Node, documents
from tests.chance import tries


def parse(text: str) -> tuple[list[Node], list[tuple[str, int]]]:
    complaints: list[tuple[str, int]] = []
    return documents(text, lambda reason, line: complaints.append((reason, line))), complaints


def plain(node: Node) -> object:
    """The value of a tree without merges, as PyYAML makes it."""
    if node.kind == "mapping":
        return {key.value(): plain(value) for key, value in node.pairs}
    if node.kind == "list":
        return [plain(item) for item in node.items]
    return node.value()


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.text(max_size=8), st.dates()
)


@tries(16)
@given(
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
        max_leaves=12,
    ),
    st.booleans(),
)
def test_values_are_those_of_the_safe_loader(value: object, flow: bool) -> None:
    text = yaml.safe_dump(value, default_flow_style=flow)
    (node,), complaints = parse(text)
    assert plain(node) == yaml.safe_load(text)
    assert not complaints


@pytest.mark.parametrize(
    ("text", "value"),
    [("0x1f", 31), ("010", 8), ("1_000", 1000), ("1:30", "1:30"), ("!!int 5", 5), ("!!python/object:os.system x", None),
     ("!!int x", None), ("2026-01-01T00:00:00Z", yaml.safe_load("2026-01-01T00:00:00Z")), ("!foo x", None), ("~", None)],
)  # fmt: skip
def test_scalars(text: str, value: object) -> None:
    assert parse(text)[0][0].value() == value


def test_aliases_share_one_node_however_often() -> None:
    laughs = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 50))
    (node,), complaints = parse(laughs)
    assert not complaints
    assert len({id(item) for item in node.pairs[-1][1].items}) == 1


def test_aliases_of_incomplete_nodes() -> None:
    (node,), complaints = parse("a: *b\nb: &c [*c]\nd: &b 1\n")
    assert [line for _, line in complaints] == [1, 2]
    assert plain(node) == {"a": None, "b": [None], "d": 1}


def test_merges_are_kept_apart() -> None:
    (node,), _ = parse("a: &a {x: 1}\nb: &b {y: 2}\nc: {<<: [*a, *b, 5], z: 3}\nd: {'<<': *a}\n")
    merging, quoted = node.pairs[2][1], node.pairs[3][1]
    assert [[key.text for key, _ in part.pairs] for part in (merging, *merging.merged)] == [["z"], ["x"], ["y"]]
    assert not quoted.merged


def test_depth() -> None:
    (node,), complaints = parse("a: " + "[" * 200 + "]" * 200 + "\nb: 1\n")
    assert [line for _, line in complaints] == [1]
    assert node.pairs[1][1].value() == 1
    levels, inner = 0, node
    while inner.kind == "mapping" or inner.items:
        inner, levels = inner.pairs[0][1] if inner.kind == "mapping" else inner.items[0], levels + 1
    assert levels == DEEPEST
    for text in ("[" * 500_000, "[" * 500_000 + "]" * 500_000, "{a: " * 200_000):
        with pytest.raises(BadYaml):
            parse(text)


def test_mistakes_have_a_place() -> None:
    with pytest.raises(BadYaml) as failure:
        parse("a: 1\nb: [\nc: }\n")
    assert failure.value.line == 3


def test_pyyamls_own_parser_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: &x {b: [1, *x, 'c']}\n? [k]\n: |\n  text\n---\n- {<<: *x}\n"
    first = [plain(node) for node in parse(text)[0]]
    monkeypatch.setattr(yaml_tree, "_PARSER", yaml.SafeLoader)
    assert [plain(node) for node in parse(text)[0]] == first
