"""Parameters of heuristics: as a HeuristicConf.xml spells them, and as a what-if changes them."""

from __future__ import annotations

from engine.job_heuristics.dr_elephant.heuristic_conf import default_rules, evaluate, limits, read


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
    assert rules.by_heuristic["Mapper Memory"] is rule and len(rules.of("mapreduce").with_gates) == 11


def test_blanks_make_a_whole_number_none_and_leave_limits_alone() -> None:
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
<heuristic><applicationtype>tez</applicationtype><heuristicname>t</heuristicname><classname>y.T</classname></heuristic>
</heuristics>"""


def test_changed_limits_follow_wishes_and_name_what_they_cannot() -> None:
    rules = default_rules()
    assert rules.changed(()) == (rules, ()) and rules.changed(["Mapper Time/num_tasks_severity=x1"])[0] is rules
    changed, complaints = rules.changed(["Mapper Time/num_tasks_severity=x0.1", "Mapper GC/nothing=1:2:3:4", "x"])
    assert changed.by_heuristic["Mapper Time"].limits["num_tasks_severity"] == (5, 10.100000000000001, 50, 100)
    assert changed.by_heuristic["Reducer Time"] == rules.by_heuristic["Reducer Time"]
    assert len(complaints) == 2 and all("are not used" in complaint for complaint in complaints)
    assert changed.key != rules.key == default_rules().key
