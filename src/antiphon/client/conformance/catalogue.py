"""All 98 cases of specification section 22, in order: what is run over the wire, and what is not and why."""

from antiphon.client.conformance import (
    cases_input,
    cases_life,
    cases_map,
    cases_openai,
    cases_opening,
    cases_response,
)
from antiphon.client.conformance.target import Case

_MODEL = "needs the model"
_CLIENT = "needs a client's own package; shown in tests/protocol/test_realtime_"

_NOT_RUN = (
    Case(number=66, title="Talker chunk at 4096", note=_MODEL),
    Case(number=68, title="30 minutes with the basic window", note=_MODEL),
    Case(number=73, title="unmodified DuplexClient", note=f"{_CLIENT}vllm_client.py"),
    Case(
        number=74,
        title="upstream's command-line demo",
        note="its file is in no package; ours writes the same result.json",
    ),
    Case(number=75, title="browser page", note="shown in tests/integration/test_live_page.py"),
    Case(number=76, title="openai SDK", note=f"{_CLIENT}openai_sdk.py"),
    Case(number=77, title="Pipecat", note=f"{_CLIENT}frameworks.py"),
    Case(number=78, title="LiveKit", note=f"{_CLIENT}frameworks.py"),
    Case(number=79, title="openbmb_realtime", note=f"{_CLIENT}openbmb_sdk.py"),
)

CASES: tuple[Case, ...] = tuple(
    sorted(
        (
            *cases_opening.CASES,
            *cases_input.CASES,
            *cases_response.CASES,
            *cases_life.CASES,
            *cases_openai.CASES,
            *cases_map.CASES,
            *_NOT_RUN,
        ),
        key=lambda case: case.number,
    )
)
