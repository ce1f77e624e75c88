"""Which mistakes are made in a source, and that each makes another program."""

from __future__ import annotations

import ast

from tests.mutants.sites import sites

SOURCE = '''"""A text."""
LIMIT: int = 3

@cache(1)
def odd(values: list[int] = (), most=5) -> bool:
    """Another text."""
    for value in values:
        if not value and value is None:
            continue
        values.append(-value)
    return max(values) + 2 < most
'''


def test_every_sort_of_mistake() -> None:
    before = ast.unparse(ast.parse(SOURCE))
    found = []
    for index in range(len(list(sites(ast.parse(SOURCE))))):
        tree = ast.parse(SOURCE)
        site = list(sites(tree))[index]
        site.change()
        after = ast.unparse(ast.fix_missing_locations(tree))
        compile(tree, "odd.py", "exec")
        changed = [
            line.strip() for line, was in zip(after.splitlines(), before.splitlines(), strict=True) if line != was
        ]
        found.append((site.owner, site.sort, *changed))
    assert found == [
        (None, "constant", "LIMIT: int = 4"),
        (None, "constant", "def odd(values: list[int]=(), most=6) -> bool:"),
        (4, "and, or", "if not value or value is None:"),
        (4, "not", "if not not value and value is None:"),
        (4, "comparison", "if not value and value is not None:"),
        (4, "removed statement", "pass"),
        (4, "removed statement", "pass"),
        (4, "sign", "values.append(+value)"),
        (4, "return", "return None"),
        (4, "comparison", "return max(values) + 2 <= most"),
        (4, "operator", "return max(values) - 2 < most"),
        (4, "name", "return min(values) + 2 < most"),
        (4, "constant", "return max(values) + 3 < most"),
    ]
