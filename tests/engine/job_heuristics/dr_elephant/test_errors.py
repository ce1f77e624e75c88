"""The line of an error that a person looks for."""

from __future__ import annotations

import pytest

from engine.core.reading import clean
from engine.job_heuristics.dr_elephant.errors import grouped, root_cause, with_cause

TASK = (
    "Job aborted due to stage failure: Task 3 in stage 1.0 failed 4 times, most recent failure: "
    "Lost task 3.3 in stage 1.0 (TID 9) (host7 executor 2): "
)
PYTHON = (
    'Traceback (most recent call last):\n  File "etl.py", line 4, in run\n    f(row)\nValueError: bad row\n\n'
    "During handling of the above exception, another exception occurred:\n\n"
    'Traceback (most recent call last):\n  File "etl.py", line 9, in main\n    raise\nLookupError: no such shop\n'
)
JAVA = "a.b.Outer: top\n\tat a.b.C(C.java:1)\nCaused by: a.b.Middle: m\n\t... 2 more\nCaused by: a.b.Inner: deep\n\tat a.b.D\n"


LOST = "ExecutorLostFailure (executor 1 exited): Container killed"
OFTEN = "ResultStage 2 (x) has failed the maximum allowable number of times: 4. Most recent failure reason:\n"
BRIDGED = PYTHON.replace("LookupError: no such shop", "py4j.protocol.Py4JJavaError: An error occurred\n: " + JAVA)
GONE = "a.b.E: Python worker exited unexpectedly (crashed)"

TASK_OF_TEZ = (
    "Vertex failed, vertexName=Map 1, diagnostics=[Task failed, diagnostics=[TaskAttempt 0 failed, "
    "info=[Error: Error while running task ( failure ) : attempt_1_0:java.lang.IllegalStateException: no rows\n\tat a.b"
)
NO_JAVA_CAUSE = (
    'Traceback (most recent call last):\n  File "a.py", line 1, in f\npy4j.protocol.Py4JJavaError: An error occurred '
    "while calling o4.save.\n: a.b.AnalysisException: no table shops\n\tat a.b"
)
GROUP = (
    "  + Exception Group Traceback (most recent call last):\n  | ExceptionGroup: two\n  +-+--- 1 ---\n"
    "    | ValueError: no price\n    +----"
)


@pytest.mark.parametrize(
    ("text", "cause"),
    (
        (TASK + "a.b.PythonException: " + PYTHON + "\n\tat a.b(C.scala:1)", "LookupError: no such shop"),
        (TASK + JAVA + "\nDriver stacktrace:", "a.b.Inner: deep"),
        (TASK + LOST, LOST),
        ("Error: java.lang.IllegalStateException: x\n\tat a.b", "java.lang.IllegalStateException: x"),
        (OFTEN + "a.Fetch: gone", "a.Fetch: gone"),
        (BRIDGED, "a.b.Inner: deep"),
        (GONE + "\nCaused by: java.io.EOFException", GONE),
        (TASK_OF_TEZ, "java.lang.IllegalStateException: no rows"),
        (NO_JAVA_CAUSE, "a.b.AnalysisException: no table shops"),
        (GROUP, "ValueError: no price"),
        ("User class threw exception: a.b.Missing: no path\n\tat a.b", "a.b.Missing: no path"),
        ("FetchFailed(BlockManagerId(3, n4, 7337, None), message=\na.Fetch: reset\n\tat a.b", "a.Fetch: reset"),
        (
            "Application application_1_2 failed 2 times due to AM Container for a exited with  exitCode: -104\n"
            "Failing this attempt.Diagnostics: [2025-10-20 22:40:20.12]Container [pid=4] is beyond memory limits.\nDump",
            "Container [pid=4] is beyond memory limits.",
        ),
        (
            "ExecutorLostFailure (executor 2 exited caused by one of the running tasks) Reason: Container killed by YARN.",
            "Container killed by YARN.",
        ),
        (
            "org.apache.spark.SparkException: Job aborted due to stage failure: Task 3 in stage 1.0 failed 4 times, most recent "
            "failure: Lost task 3.3 in stage 1.0 (TID 9) (h executor 2): a.b.EOFException: x\n\tat a",
            "a.b.EOFException: x",
        ),
        (
            "Container container_e02_1_2_01_9 finished with diagnostics set to [Container failed, exitCode=-104. "
            "[2025-10-20 10:10:10.123]Container [pid=8] is running beyond the limit.\nDump",
            "Container [pid=8] is running beyond the limit.",
        ),
        (
            "Exception from container-launch.\nContainer id: container_1_2_01_2\nExit code: 143\nStack trace: x",
            "Exit code: 143",
        ),
        ("AttemptID:attempt_1_2_m_3_0 Timed out after 600 secs", "Timed out after 600 secs"),
        ("Traceback (most recent call last):", "Traceback (most recent call last):"),
        ("", ""),
    ),
)
def test_the_cause_stands_in_the_text_as_it_was_written_and_as_it_was_cleaned(text: str, cause: str) -> None:
    assert root_cause(text) == root_cause(clean(text)) == cause
    assert with_cause(text, 4000).startswith(cause) and root_cause(with_cause(text, 4000)) == cause


def test_errors_are_grouped_by_cause_whatever_numbers_it_names() -> None:
    longer = 'Traceback (most recent call last):\n  File "a.py"\nKeyError: 4'
    assert grouped([("KeyError: 17", 2, "b"), ("a.E: x", 3, "c"), (longer, 2, "d"), ("a.E: x", 0, "e")]) == (
        ("KeyError: 17", 4, "b", longer),
        ("a.E: x", 3, "c", "a.E: x"),
    )
