"""Counters of a server."""

from antiphon.bench.server_facts import counted_between


def test_only_counters_that_rose_are_told() -> None:
    assert counted_between({"a": 1.0, "b": 2.0}, {"a": 4.0, "b": 2.0, "c": 1.0}) == {"a": 3.0, "c": 1.0}
