"""Runs cases one after another and says of each how it went."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import Enum

from websockets.exceptions import WebSocketException

from antiphon.client.conformance.peer import AbsentError, MismatchError
from antiphon.client.conformance.target import Case, Target

CASE_S = 120.0
LISTENED = "the model chose to listen"
_LISTENS = frozenset(("model_listen", "continuation_limit", "model_turn_completed_without_output"))


class Verdict(str, Enum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Outcome:
    case: Case
    verdict: Verdict
    detail: str
    took_s: float


def reason_to_skip(case: Case, target: Target) -> str | None:
    """None: the case can be run on this server."""
    if case.run is None:
        return case.note
    if case.profile != target.profile:
        return f"needs --profile {case.profile}"
    if case.waits is not None and case.waits(target) > target.patience_s:
        return f"would wait {case.waits(target):g} s; see --patience"
    return None


async def run_case(case: Case, target: Target) -> Outcome:
    """Run one case, whatever the server does."""
    skipped = reason_to_skip(case, target)
    if skipped is not None or case.run is None:
        return Outcome(case, Verdict.SKIPPED, skipped or "", 0.0)
    began = time.monotonic()
    problem, has_listened = "", False
    try:
        await asyncio.wait_for(case.run(target), CASE_S)
    except MismatchError as error:
        problem, has_listened = str(error), _has_listened(target, error)
    except asyncio.TimeoutError:
        problem = f"not over after {CASE_S:g} s"
    except (OSError, WebSocketException) as error:
        problem = f"connection: {error}"
    except (KeyError, IndexError, TypeError, ValueError, StopIteration) as error:
        problem = f"an event lacks a field: {type(error).__name__} {error}"
    try:
        await target.finish(checks=case.checks and (has_listened or not problem))
    except MismatchError as error:
        problem, has_listened = f"invariant: {error}", False
    if has_listened:
        return Outcome(case, Verdict.SKIPPED, LISTENED, time.monotonic() - began)
    return Outcome(case, Verdict.FAILED if problem else Verdict.PASSED, problem, time.monotonic() - began)


def _has_listened(target: Target, error: MismatchError) -> bool:
    """Whether a case failed only because it needs an answer, and the server's model did not give one.

    Either a response ended without a word, or none came although the model had heard everything.
    """
    listens = [
        event
        for peer in target.peers
        for event in peer.events
        if event["type"] == "response.listen" and event.get("reason") in _LISTENS
    ]
    is_waiting = isinstance(error, AbsentError) and error.wanted.startswith("response.")
    return any("response_id" in event or is_waiting for event in listens)


async def run_cases(cases: Sequence[Case], target: Target) -> AsyncIterator[Outcome]:
    for case in cases:
        yield await run_case(case, target)
