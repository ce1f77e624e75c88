"""The gate of advice: each reason for a refusal, by hand; and no two grants that pull one property both ways."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.job_heuristics.dr_elephant.advice import LESS, MORE, Setting, Wish, granted
from tests.chance import tries

SETTINGS = {
    "size": Setting(default=lambda job: "100", least=50),
    "count": Setting(),
    "off": Setting(idle=lambda job: "it is not read here"),
    "switch": Setting(default=lambda job: "false"),
}


def one(key: str, value: str, conf: dict[str, str | None] | None = None, **more: object) -> tuple[str, str, str]:
    (answer,) = granted([Wish(key, value, "a rule", **more)], SETTINGS, conf or {}, None)  # type: ignore[arg-type]
    return answer.value, answer.current, answer.why


def test_present_values_come_from_the_configuration_then_the_default_then_the_log() -> None:
    assert one("size", "70", {"size": " 80 "}) == ("70", "80", "")
    assert one("size", "70") == ("70", "100", "")
    assert one("count", "7", current="20") == ("7", "20", "")
    assert one("count", "7") == ("7", "", "")


def test_what_does_not_act_is_not_settled_or_is_set_already_is_refused_in_words() -> None:
    assert one("off", "1") == ("", "", "off changes nothing here: it is not read here.")
    assert one("size", "70", open="stage 3 runs")[::2] == ("", "No value for size: stage 3 runs.")
    assert one("switch", "TRUE", {"switch": "true"}) == ("", "true", "switch is true already.")
    assert one("size", "70", {"size": "90"}, way=1) == ("", "90", "size is 90 already.")  # more is wanted, 70 is less
    assert one("unknown", "1") == one("size", "") == ("", "", "")


def test_values_below_what_an_engine_takes_are_raised() -> None:
    assert one("size", "10") == ("50", "100", "50 is the least that size takes.")
    assert one("size", "10", {"size": "50"})[0] == ""


wish = st.builds(
    Wish, st.sampled_from(["size", "count", "off", "switch"]), st.sampled_from([MORE, LESS, "20", "60", "200", "true", ""]),
    st.sampled_from(["one", "other"]), way=st.sampled_from([-1, 0, 1]), current=st.sampled_from(["", "40"]),
)  # fmt: skip


@tries(40)
@given(st.lists(wish, max_size=8), st.sampled_from([None, "", "60", "words"]))
def test_no_property_is_moved_both_ways(wishes: list[Wish], set_to: str | None) -> None:
    answers = granted(wishes, SETTINGS, {"size": set_to, "count": set_to}, None)
    ways: dict[str, set[int]] = {}
    for asked, answer in zip(wishes, answers, strict=True):
        if answer.value:
            ways.setdefault(asked.key, set()).add(answer.way)
        elif asked.value:
            assert answer.why
    assert not any({1, -1} <= found for found in ways.values())
