"""Parameters of heuristics: as a HeuristicConf.xml spells them, and as a what-if changes them."""

from __future__ import annotations

import pytest

from engine.job_heuristics.dr_elephant.heuristic import evaluate, limits
from engine.job_heuristics.mapreduce.rules.heuristics import QUEUE_LIMIT, MapReduceHeuristic
from engine.job_heuristics.result.all_jobs import configured_rules as read
from engine.job_heuristics.result.all_jobs import default_rules
from engine.job_heuristics.spark.rules.heuristic import SparkHeuristic


def test_thresholds() -> None:
    assert limits("1/8, 2*3 ,-(1+2), 7%4,") == (0.125, 6.0, -3.0, 3.0)
    for bad in ("1/0", "a", "__import__('os')", "9**9**9", "(" * 300, "", "1;2", "[1]", "1e999"):
        try:
            evaluate(bad)
        except ValueError:
            continue
        raise AssertionError(bad)


def test_a_file_sets_names_limits_numbers_and_excluded_types() -> None:
    rules = read("conf", CONF)
    (rule,) = rules.rules
    assert rules.names == ("Our memory",) and rules.configured
    assert rule.limits["memory_ratio_severity"] == (0.5, 0.4, 0.3, 0.2)
    assert rule.limits["container_memory_severity"] == (1.1, 1.5, 2.0, 2.5)
    assert rule.numbers == {"container_memory_default_mb": 1024} and rule.excluded == {"Pig", "Hive"}
    assert [problem.kind for problem in rules.problems] == ["unknown-parameter", "unknown-heuristic"]
    # Explanations and what-if know it by the same name; heuristics that are switched off keep their defaults.
    assert rules.by_heuristic["Mapper Memory"] is rule and len(rules.of(MapReduceHeuristic).with_gates) == 11


def test_blanks_invalidate_whole_numbers_but_not_limits() -> None:
    conf = CONF.replace(b">1024<", b"> 1024<").replace(b"1/2,0.4,0.3,0.2", b" 1/2, 0.4 ,0.3,\n0.2,,")
    rules = read("conf", conf)
    assert rules.rules[0].numbers == {"container_memory_default_mb": 2048}
    assert rules.rules[0].limits["memory_ratio_severity"] == (0.5, 0.4, 0.3, 0.2)
    assert [problem.kind for problem in rules.problems] == ["unknown-parameter", "bad-threshold", "unknown-heuristic"]


CONF = b"""<heuristics>
<heuristic><applicationtype>mapreduce</applicationtype><heuristicname>Our memory</heuristicname>
<classname>com.linkedin.drelephant.mapreduce.heuristics.MapperMemoryHeuristic</classname>
<params><memory_ratio_severity>1/2,0.4,0.3,0.2</memory_ratio_severity><other>1</other>
<container_memory_default_mb>1024</container_memory_default_mb>
<exclude_jobtypes_filter>Pig,Hive</exclude_jobtypes_filter></params></heuristic>
<heuristic><applicationtype>mapreduce</applicationtype><heuristicname>x</heuristicname><classname>y.Z</classname></heuristic>
<heuristic><applicationtype>tony</applicationtype><heuristicname>t</heuristicname><classname>y.T</classname></heuristic>
</heuristics>"""


def test_changed_limits_follow_wishes() -> None:
    rules = default_rules()
    assert rules.changed(()) == (rules, ()) and rules.changed(["Mapper Time/num_tasks_severity=x1"])[0] is rules
    changed, complaints = rules.changed(["Mapper Time/num_tasks_severity=x0.1", "Mapper GC/nothing=1:2:3:4", "x"])
    assert changed.by_heuristic["Mapper Time"].limits["num_tasks_severity"] == (5, 10.100000000000001, 50, 100)
    assert changed.by_heuristic["Reducer Time"] == rules.by_heuristic["Reducer Time"]
    assert len(complaints) == 2 and all("are not used" in complaint for complaint in complaints)
    assert changed.key != rules.key == default_rules().key


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7%-4", 3.0),
        ("-7%4", -3.0),
        ("+2-3*(4-1)", -7.0),
        ("1e3/8", 125.0),
        ("1" * 200, float("1" * 200)),
        ("-" * 50 + "1", 1.0),
    ],
)
def test_arithmetic(text: str, value: float) -> None:
    assert evaluate(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "True",
        "2**3",
        "5//2",
        "1" * 201,
        "-" * 51 + "1",
        "not 1",
        "'a'",
        "x",
        "1,2",
        "1 if 1 else 2",
        "~1",
        "1if 1else 2",
    ],
)
def test_invalid_arithmetic(text: str, recwarn: pytest.WarningsRecorder) -> None:
    with pytest.raises(ValueError):
        evaluate(text)
    assert not recwarn.list, "a warning would be written over the screen"


@pytest.mark.parametrize("text", ["1,2,3", "1,2,3,4,5", "", ",,,,", "1,2,,4"])
def test_limits_are_four(text: str) -> None:
    with pytest.raises(ValueError):
        limits(text)


@pytest.mark.parametrize(
    ("wish", "wanted"),
    [
        ("=10:20:30:40", (10, 20, 30, 40)), ("=x999999", (50 * 999_999, 101 * 999_999, 500 * 999_999, 1000 * 999_999)),
        ("=-1:2:3:999999999999999", (-1, 2, 3, 999_999_999_999_999)), ("=x0", None), ("=x-1", None), ("=x1000000", None),
        ("=1:2:3", None), ("=1:2:3:4:5", None), ("=1:2:3:1e15", None), ("=-1e15:2:3:4", None), ("=x", None), ("", None),
        ("=nan:1:2:3", None),
    ],
)  # fmt: skip
def test_wishes_at_their_bounds(wish: str, wanted: tuple[float, ...] | None) -> None:
    rules, complaints = default_rules().changed([f"Mapper Time/num_tasks_severity{wish}"])
    assert bool(complaints) == (wanted is None)
    assert rules.by_heuristic["Mapper Time"].limits["num_tasks_severity"] == (wanted or (50, 101, 500, 1000))


def one(class_name: str, params: str, name: str = "Ours", kind: str = " MapReduce ") -> bytes:
    """A file with one heuristic."""
    return (
        f"<heuristics><heuristic><applicationtype>{kind}</applicationtype><heuristicname>{name}</heuristicname>"
        f"<classname>x.{class_name}</classname><params>{params}</params></heuristic></heuristics>"
    ).encode()


def test_unusable_parameters_keep_their_default() -> None:
    """Each with a problem; of two parameters of one name the first counts, and an empty text is none."""
    params = (
        "<num_tasks_severity>1,2,3,4</num_tasks_severity><num_tasks_severity>5,6,7,8</num_tasks_severity>"
        "<short_runtime_severity_in_min></short_runtime_severity_in_min>"
        "<long_runtime_severity_in_min>1,2,3</long_runtime_severity_in_min><!-- none -->"
    )
    rules = read("conf", one("MapperTimeHeuristic", params, name=""))
    assert rules.names == ("Mapper Time",) and [problem.kind for problem in rules.problems] == ["bad-threshold"]
    assert rules.rules[0].limits == {
        "num_tasks_severity": (1, 2, 3, 4), "short_runtime_severity_in_min": (10, 4, 2, 1),
        "long_runtime_severity_in_min": (15, 30, 60, 120),
    }  # fmt: skip
    assert "long_runtime_severity_in_min: 3 values instead of four" in rules.problems[0].reason


def test_parameters_that_dr_elephant_does_not_read() -> None:
    limit = "<distributed.cache.file.size.limit>{}</distributed.cache.file.size.limit>"
    ignored = "<distributed.cache.size.limit>7</distributed.cache.size.limit>"
    rules = read("conf", one("DistributedCacheLimitHeuristic", limit.format(9) + ignored))
    assert rules.rules[0].numbers == {"distributed.cache.file.size.limit": 9} and not rules.rules[0].excluded
    assert [problem.kind for problem in rules.problems] == ["ignored-parameter"]
    rules = read("conf", one("DistributedCacheLimitHeuristic", limit.format("9.0")))
    assert rules.rules[0].numbers == {"distributed.cache.file.size.limit": 500 * 2**20}
    key = "serializer_if_non_null_recommendation"
    spark = read("conf", one("ConfigurationHeuristic", f"<{key}>my\x85Kryo</{key}>", kind="SPARK"))
    assert spark.rules[0].texts[key].startswith("my") and "\x85" not in spark.rules[0].texts[key]
    assert spark.of(SparkHeuristic).rules == spark.rules and not spark.of(MapReduceHeuristic).rules


def test_files_without_any_heuristic() -> None:
    """One that cannot be read leaves the defaults; one that can and names none judges no job."""
    broken = read("conf", b"<heuristics>")
    assert broken.rules == default_rules().rules and not broken.configured and len(broken.problems) == 1
    none = read("conf", b"<heuristics></heuristics>")
    assert none.rules == () and none.configured and len(none.problems) == 1
    bare = read("conf", one("MapperTimeHeuristic", "").replace(b"<params></params>", b""))
    assert bare.rules[0].limits == default_rules().by_heuristic["Mapper Time"].limits and not bare.problems


def test_heuristics_that_are_added_once() -> None:
    rules = default_rules()
    more = rules.also(QUEUE_LIMIT)
    assert more.names == (*rules.names, "Job Queue Limit") and more.also(QUEUE_LIMIT) is more
    assert rules.key != more.key and default_rules().key == rules.key
