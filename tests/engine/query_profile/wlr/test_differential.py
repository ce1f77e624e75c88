"""Odd tables from a generator with seeds: reader and regression against the plain formulas of ``plain``."""

from __future__ import annotations

import csv
import io
import math
import random

import numpy as np
import pytest

from engine.core.parameters import Attachment, parse
from engine.core.reading import Source
from engine.query_profile.reading.wlr_csv import WlrCsv
from engine.query_profile.view import VIEW
from engine.query_profile.wlr import regression
from engine.query_profile.wlr.regression import Lines, Quality, Sums, quality
from tests.engine.query_profile.builders import compute
from tests.engine.query_profile.wlr import plain
from tests.engine.query_profile.wlr.plain import TARGET, Answer, Row

SEEDS = range(300)


def cell(random_: random.Random, value: float) -> str:
    """One of the ways to write a number."""
    if not math.isfinite(value):
        return random_.choice({"nan": ["NaN", "nan"], "inf": ["Inf", "+inf"], "-inf": ["-Inf"]}[str(value)])
    whole = value.is_integer() and abs(value) < 1e15
    ways = [repr(value), f"{value:.17g}", value.hex(), f"{value:+.17e}"]
    if whole:
        text = str(int(value))
        ways += [text, text, text, "0" * (text[0] != "-") + text]
        if len(text) > 3 and text[0] != "-":
            ways.append(f"{text[:-3]}_{text[-3:]}")
    return random_.choice(ways)


def column(random_: random.Random, rows: int, whole: bool) -> list[float]:
    """The times of one class: constant, almost constant, rare, negative, sleeping, far apart."""
    base = random_.choice([1, 77, 700, 57_082_379, 655_304_616])
    spread = random_.choice([0, 0, 1, 5, base // 2, base * 3])
    present = random_.choice([1.0, 1.0, 0.7, 0.1])
    sign = random_.choice([1.0, 1.0, 1.0, 0.9])
    values = []
    for _ in range(rows):
        value = float(base + random_.randint(0, spread)) if random_.random() < present else 0.0
        value *= 1 if random_.random() < sign else -1
        values.append(value if whole else value + random_.random() * random_.choice([0, 1e-3, 1.0]))
    if random_.random() < 0.04:
        values[random_.randrange(rows)] = random_.choice([math.nan, math.inf, -math.inf, 1e308, 5e-324])
    return values


def table(random_: random.Random, names: list[str]) -> tuple[str, list[Row]]:
    """A table as text, and its numbers."""
    rows = random_.choice([1, 2, 3, 4, 12, 40])
    classes = [name for name in names if name != TARGET]
    # Two terms have one sum; of more, only whole numbers have one whatever the order, which the program leaves to chance.
    whole = len(set(classes)) > 2 or random_.random() < 0.5
    columns = [column(random_, rows, whole) for _ in names]
    if random_.random() < 0.5:  # y follows the times
        for name, values in zip(names, columns, strict=True):
            if name == TARGET:
                for t in range(rows):
                    others = [c[t] for n, c in zip(names, columns, strict=True) if n != TARGET and abs(c[t]) < 1e100]
                    values[t] = round(2.5 * sum(others)) + float(random_.randint(0, 1000)) * (random_.random() < 0.9)
    out = io.StringIO(newline="")
    end = random_.choice(["\n", "\r\n"])
    writer = csv.writer(out, lineterminator=end, quoting=random_.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    out.write(end * random_.choice([0, 0, 1]))
    writer.writerow(names)
    writer = csv.writer(out, lineterminator=end, quoting=random_.choice([csv.QUOTE_MINIMAL] * 3 + [csv.QUOTE_ALL]))
    for values in zip(*columns, strict=True):
        out.write(end * (random_.random() < 0.05))
        writer.writerow([cell(random_, value) for value in values])
    read = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    return out.getvalue(), [{name: row[name] for name in dict.fromkeys(names)} for row in read]


def case(seed: int) -> tuple[str, list[Row], str | None, list[Row]]:
    """A table to learn from and one to predict (None: the same)."""
    random_ = random.Random(seed)
    pool = ["q.1", "q.2", "e.785f8ac3c1ea1c93", "p.45c2b67b", "a,b", 'x"y', "é2450", "two words"]
    names = random_.sample(pool, random_.choice([1, 1, 2, 2, 3, 5]))
    if random_.random() < 0.1:
        names.append(names[0])  # of two columns of one name the last counts
    if random_.random() < 0.95:
        names.insert(random_.randint(0, len(names)), TARGET)
    text, rows = table(random_, names)
    if random_.random() < 0.7:
        return text, rows, None, rows
    others = random_.sample(pool, random_.randint(1, 3))
    others.insert(random_.randint(0, len(others)), TARGET)
    other_text, other_rows = table(random_, others)
    return text, rows, other_text, other_rows


def matrix(text: str) -> tuple[list[str], np.ndarray]:
    """Names and numbers as the engine reads them; no row may be refused."""
    data = text.encode()
    reading = WlrCsv().read(Source("/in/t.csv", "t.csv", 0, len(data)), data, None, True)
    assert {problem.kind for problem in reading.problems} <= {"duplicate-column", "not-finite", "negative-value"}
    names, values = reading.rows["matrix"].row(0)
    return names, np.array(values, float).reshape(-1, len(names))


def engine_answer(train: str, predict: str | None) -> tuple[list[str], Lines, np.ndarray, np.ndarray]:
    """Classes, lines, and actuals and predictions of the rows whose actual is not 0."""
    names, values = matrix(train)
    classes = [name for name in names if name != TARGET]
    x = values[:, [names.index(name) for name in classes]]
    y = values[:, names.index(TARGET)] if TARGET in names else np.zeros(len(values))
    lines = Sums.zero(len(classes)).add(x, y).lines()
    if predict is not None:
        names, values = matrix(predict)
        x = np.zeros((len(values), len(classes)))
        for j, name in enumerate(classes):
            if name in names:
                x[:, j] = values[:, names.index(name)]
        y = values[:, names.index(TARGET)]
    return classes, lines, y[y != 0], lines.predict(x[y != 0])


def same(found: float, wanted: float) -> bool:
    return found == wanted or (math.isnan(found) and math.isnan(wanted))


def near(found: float, wanted: float, scale: float) -> bool:
    """Whether numbers are equal up to the rounding of terms of size ``scale``."""
    return same(found, wanted) or abs(found - wanted) <= 1e-11 * max(abs(wanted), scale)


def check_final(found: Quality, wanted: Answer) -> None:
    """The regression of predicted on actual: little spread enlarges the rounding that the order of a row's sum leaves."""
    fit = wanted.final
    if not all(math.isfinite(guess) for _, guess in wanted.predictions) or not math.isfinite(fit.szz):
        return
    assert near(found.mape, wanted.mape, 1.0)
    if fit.n < 2 or fit.a != 0:
        size = plain.div(abs(fit.n * fit.sxz) + abs(fit.sx * fit.sz), abs(fit.a)) if fit.n > 1 else 0.0
        assert near(found.slope, fit.slope, size)


def test_every_number_of_many_odd_tables() -> None:
    shapes = set()
    for seed in SEEDS:
        train, rows, predict, others = case(seed)
        wanted = plain.answer(rows, others)
        classes, lines, actual, predicted = engine_answer(train, predict)
        fitted = {name: j for j, name in enumerate(classes) if lines.n[j] > 0}
        assert fitted.keys() == wanted.fits.keys(), seed
        for name, j in fitted.items():
            fit = wanted.fits[name]
            for key in ("n", "slope", "intercept", "r2", "slope_stderr", "intercept_stderr"):
                assert same(float(getattr(lines, key)[j]), getattr(fit, key)), (seed, name, key)
        assert [float(a) for a in actual] == pytest.approx([a for a, _ in wanted.predictions], rel=0, nan_ok=True)
        for guess, (_, other) in zip(predicted.tolist(), wanted.predictions, strict=True):
            assert near(guess, other, 0.0), seed
        score = quality(actual, predicted)
        check_final(score, wanted)
        printed = regression.text(classes, lines, actual, predicted, score).splitlines()
        begin = printed.index("variable             count  R^2     slope  (t-stat) intercept  (t-stat)") + 1
        assert printed[begin : printed.index("", begin)] == wanted.printed(), seed
        assert sum(line.startswith("PREDICT") for line in printed) == 1 + len(wanted.predictions)
        for fit in wanted.fits.values():
            shapes |= {
                "flat" if fit.a == 0 and fit.n > 1 else "",
                "falling" if fit.slope < 0 else "",
                f"n{min(fit.n, 3):.0f}",
            }
            shapes |= {"endless" if math.isinf(fit.slope) else "", "poisoned" if math.isnan(fit.sz) else ""}
    assert shapes >= {"flat", "falling", "n1", "n2", "n3", "endless", "poisoned"}, "the generator has become tame"


@pytest.mark.parametrize("seed", range(1000, 1012))
def test_the_report_says_the_same(seed: int) -> None:
    train, rows, predict, others = case(seed)
    wanted = plain.answer(rows, others)
    choices: dict[str, object] = {"method": "wlr", "rules": "upstream", "draws": "0"}
    if predict is not None:
        choices["predict"] = Attachment("other.csv", predict.encode())
    result = compute({"t.csv": train.encode()}, **choices)
    found = {row["class"]: row for row in result.tables["classes"].iter_rows(named=True) if row["n"]}
    assert found.keys() == wanted.fits.keys()
    for name, fit in wanted.fits.items():
        for key in ("n", "slope", "intercept", "r2", "slope_stderr", "intercept_stderr"):
            number = found[name][key]
            assert same(math.nan if number is None else number, getattr(fit, key))
    predictions = result.tables["predictions"].select("actual", "predicted").rows()
    assert len(predictions) == result.summary["rows_predicted"] == len(wanted.predictions)
    for (actual, guess), (y, other) in zip(predictions, wanted.predictions, strict=True):
        assert same(actual, y) and near(guess, other, 0.0)
    printed = (VIEW.upstream(result, parse(VIEW.parameters, list(choices.items()))) or "").splitlines()
    assert set(wanted.printed()) <= set(printed)
