"""Every public fault report that is tracked has a test, and every test that is named for one exists."""

import ast
from functools import cache
from pathlib import Path

import pytest
from public_cases import CASES, NEEDS_THE_MODEL, NUM_CASES, SESSION_CASES

TESTS = Path(__file__).parents[1]


@cache
def names_in(path: str) -> frozenset[str]:
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def exists(test: str) -> bool:
    path, _, name = test.partition("::")
    return (TESTS / path).is_file() and name in names_in(path)


@pytest.mark.parametrize("case", sorted(CASES))
def test_a_case_has_its_tests(case: str) -> None:
    title, tests = CASES[case]
    assert title
    assert tests
    assert [test for test in tests if not exists(test)] == []


@pytest.mark.parametrize("case", sorted(SESSION_CASES))
def test_a_case_of_live_sessions_has_its_tests(case: str) -> None:
    named = SESSION_CASES[case]
    assert [test for test in named if not exists(test)] == []
    marker = f"_{case.lower()}_"
    assert named or any(marker in name for path in TESTS.rglob("test_*.py") for name in names_in(str(path)))


def test_every_case_stands_once() -> None:
    numbers = [*CASES, *SESSION_CASES, *NEEDS_THE_MODEL]
    assert len(numbers) == len(set(numbers)) == NUM_CASES
