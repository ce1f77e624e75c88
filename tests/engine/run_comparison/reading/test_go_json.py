"""Documents with odd, repeated and damaged fields against the plain decoder, and against the ways they may be written."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from engine.core.reading import Source
from engine.run_comparison.reading import go_json
from engine.run_comparison.reading.clusterloader import RunMetadata
from tests.engine.run_comparison import plain_go

ODD_TEXTS = ("", "a", "pod_startup", "Perc50", "data", "labels", "é", "ſ", "\u212a", "\x7f", "😀", '"', "\\", "\ufeff")
NUMBERS = ("0", "-0", "1", "2.5", "1e3", "1E-400", "-17", "1e308", "18446744073709551615", "18446744073709551616")
BAD_NUMBERS = ("NaN", "Infinity", "-Infinity", "1e309", "01", "1.", ".5", "+1", "1_0", "0x1", "9" * 400)


def _cased(rng: random.Random, name: str) -> str:
    how = rng.random()
    if how < 0.75:
        return json.dumps(name)
    if how < 0.85:
        return json.dumps(rng.choice((name.upper(), name.title(), name.swapcase())), ensure_ascii=False)
    if how < 0.92:
        return json.dumps(name.replace("s", "ſ").replace("k", "\u212a"), ensure_ascii=False)
    return '"' + "".join(f"\\u{ord(c):04x}" if rng.random() < 0.3 else c for c in name) + '"'


def _text(rng: random.Random) -> str:
    if rng.random() < 0.05:
        return rng.choice(('"\\ud800"', '"\\udc00\\ud83d\\ude00"', '"\\x"', '"\x01"', '"a', "'a'", '"\\u12"'))
    return json.dumps("".join(rng.choices(ODD_TEXTS, k=rng.randrange(3))), ensure_ascii=rng.random() < 0.5)


def _any(rng: random.Random, depth: int = 0) -> str:
    how = rng.random()
    if how < 0.2 and depth < 3:
        return "[" + ",".join(_any(rng, depth + 1) for _ in range(rng.randrange(3))) + "]"
    if how < 0.4 and depth < 3:
        return "{" + ",".join(f"{_text(rng)}:{_any(rng, depth + 1)}" for _ in range(rng.randrange(3))) + "}"
    return rng.choice(("null", "true", "false", _text(rng), rng.choice(NUMBERS), rng.choice(BAD_NUMBERS)))


def _map(rng: random.Random, numbers: bool) -> str:
    def value() -> str:
        how = rng.random()
        if how < 0.08:
            return "null"
        if how < 0.1:
            return _any(rng)
        return rng.choice(NUMBERS) if numbers else _text(rng)

    names = ("Perc50", "Perc90", "perc50", "") if numbers else ("Verb", "verb", "Metric", "Count")
    entries = [f"{_cased(rng, rng.choice(names))}:{value()}" for _ in range(rng.randrange(4))]
    return "{" + ", ".join(entries) + "}"


def _odd(rng: random.Random, usual: str) -> str:
    how = rng.random()
    return "null" if how < 0.05 else _any(rng) if how < 0.08 else usual


def _item(rng: random.Random) -> str:
    entries = []
    for _ in range(rng.randrange(5)):
        name = rng.choice(("data", "data", "labels", "labels", "unit", "other"))
        value = {"data": lambda: _map(rng, True), "labels": lambda: _map(rng, False), "unit": lambda: _text(rng)}.get(
            name, lambda: _any(rng)
        )()
        entries.append(f"{_cased(rng, name)} : {_odd(rng, value)}")
    return "{" + ",".join(entries) + "}"


def document(rng: random.Random) -> bytes:
    entries = []
    for _ in range(rng.randrange(4)):
        name = rng.choice(("dataItems", "dataItems", "dataItems", "version", "labels", "other"))
        value = {
            "dataItems": lambda: "[" + ",\n".join(_odd(rng, _item(rng)) for _ in range(rng.randrange(4))) + "]",
            "version": lambda: _text(rng),
            "labels": lambda: _map(rng, False),
        }.get(name, lambda: _any(rng))()
        entries.append(f"{_cased(rng, name)}:{_odd(rng, value)}")
    return damaged(rng, "{" + ",".join(entries) + "}")


def damaged(rng: random.Random, text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    how = rng.random()
    if how < 0.03:
        data = data[: rng.randrange(len(data) + 1)]
    elif how < 0.06:
        data += rng.choice((b" x", b" \n", b"{}", b"\x00"))
    elif how < 0.1 and data:
        at = rng.randrange(len(data))
        data = data[:at] + rng.choice((b"\xff", b"\xe2\x82", b"\xf0\x9f", b"", b",", b"\xef\xbb\xbf")) + data[at:]
    elif how < 0.12:
        data = rng.choice((b" ", b"\xef\xbb\xbf", b"[", b"null ")) + data
    return data


@pytest.mark.parametrize("seed", range(40))
def test_random_documents(seed: int) -> None:
    rng = random.Random(seed)
    refused = 0
    for _ in range(50):
        data = document(rng)
        expected = plain_go.perf_data(data)
        found = go_json.decode(data)
        assert bool(found.refused) == (expected is None), (data, found.refused)
        if expected is None:
            refused += 1
            continue
        as_go = [
            ({name: number or 0.0 for name, number in item.data.items()}, item.labels, item.unit)
            for item in found.items
        ]
        assert as_go == expected, data
        api = go_json.decode_api(data)
        if api is not None:
            assert [(item.data.Perc50, item.unit) for item in api.dataItems] == [
                (numbers["Perc50"], unit) for numbers, _, unit in expected
            ]
    assert 5 < refused < 45


API_ITEM = '{"data":{"Perc50":1,"Perc90":2,"Perc99":3},"labels":{"Verb":"GET","Count":"20"},"unit":"ms"}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (API_ITEM.replace('"unit"', '"data":{"Perc50":9},"unit"'), {"Perc50": 9, "Perc90": 2, "Perc99": 3}),
        (API_ITEM.replace('"unit"', '"d\\u0061ta":{"Perc50":9},"unit"'), {"Perc50": 9, "Perc90": 2, "Perc99": 3}),
        (API_ITEM.replace('"unit"', '"data":null,"data":{"x":9},"unit"'), {"x": 9}),
    ],
)
def test_repeated_fields_merge(text: str, expected: dict[str, float]) -> None:
    data = f'{{"dataItems":[{text}]}}'.encode()
    assert go_json.decode_api(data) is None
    assert go_json.decode(data).items[0].data == expected


@pytest.mark.parametrize("more", ["", '"labels":{},', '"labels":null,', '"labels":{"a":"b"},"labels":{},'])
def test_repeated_labels_merge_whether_the_document_has_labels_or_not(more: str) -> None:
    twice = API_ITEM.replace('"unit"', '"labels":{"Verb":"LIST"},"unit"')
    for item, verb in ((API_ITEM, "GET"), (twice, "LIST")):
        data = f'{{{more}"dataItems":[{API_ITEM},{item}]}}'.encode()
        assert [each.labels for each in go_json.decode(data).items] == [
            {"Verb": "GET", "Count": "20"}, {"Verb": verb, "Count": "20"},
        ]  # fmt: skip
        assert (go_json.decode_api(data) is None) == (item == twice or "null" in more or more.count("labels") > 1)


def test_repeated_lists_are_decoded_into_the_items_before() -> None:
    one, two = '{"data":{"a":1}}', '{"data":{"b":2}}'
    lists = (f"[{one},{one},{one}]", f"[{two}]", "[{},null,{}]")
    items = [go_json.decode(f'{{{text}}}'.encode()).items for text in (
        ",".join(f'"dataItems":{each}' for each in lists[:count]) for count in (1, 2, 3)
    )]  # fmt: skip
    assert [[item.data for item in each] for each in items] == [
        [{"a": 1}] * 3, [{"a": 1, "b": 2}], [{"a": 1, "b": 2}, {"a": 1}, {"a": 1}],
    ]  # fmt: skip


@pytest.mark.parametrize("depth", [300, 5_000, 9_999, 10_000])
def test_unknown_values_may_be_ten_thousand_deep(depth: int) -> None:
    deep = "[" * depth + '"]"' + "]" * depth
    data = f'{{"x":{deep},"dataItems":[{API_ITEM}]}}'.encode()
    found = go_json.decode(data)
    assert bool(found.refused) == (depth == 10_000)  # the document is one level itself
    assert len(found.items) == (depth < 10_000)
    cut = go_json.decode(data[: len(data) // 2])
    assert cut.bad
    mark = _marks(f'{{"timestamp":5,"metadata":{deep}}} x'.encode(), "started.json")
    assert mark == (None if depth == 10_000 else {"timestamp": 5})


def _marks(data: bytes, name: str) -> dict[str, Any] | None:
    """What the reader says that the benchmark tool reads, in the words of ``plain_go.run_mark``."""
    reading = RunMetadata().read(Source(f"/j/1/{name}", name, 0, len(data)), data, None, True)
    facts = reading.rows.get("run_facts")
    if facts is None:
        return None
    by_name = dict(zip(facts["fact"], facts["result"], strict=True))
    if name == "started.json":
        return {"timestamp": int(by_name["upstream-start"])} if "upstream-start" in by_name else None
    return None if "refused-finished" in by_name else {"success": "upstream-success" in by_name}


@pytest.mark.parametrize("name", ["started.json", "finished.json"])
def test_random_metadata(name: str) -> None:
    rng = random.Random(len(name))
    stamps = ("1789996400", "0", "-1", "1.5", "17.0", "1e3", '"17"', "null", *NUMBERS, "true", "[]", "{}", "NaN")
    results = ('"SUCCESS"', '"SUCCESS"', '"SUCCESS "', '"success"', '"FAILURE"', "null", "1", "{}", '"\\u0053UCCESS"')
    read = 0
    for _ in range(2000):
        entries = []
        for _ in range(rng.randrange(5)):
            field = rng.choice(("timestamp", "timestamp", "result", "result", "version", "jenkins-node", "other"))
            value = rng.choice(stamps) if field == "timestamp" else rng.choice(results)
            entries.append(f"{_cased(rng, field)}:{value if field != 'other' else _any(rng)}")
        data = damaged(rng, "{" + ",".join(entries) + "}")
        expected = plain_go.run_mark(data, name)
        if expected is not None:
            read += 1
            success = expected.pop("result", "") == "SUCCESS"
            expected = {"success": success} if name == "finished.json" else {"timestamp": expected["timestamp"]}
        assert _marks(data, name) == expected, data
    assert 300 < read < 1900
