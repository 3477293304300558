"""All 98 cases of specification section 22, in order: what is run over the wire, and what is not and why."""

from antiphon.client.conformance import cases_input, cases_life, cases_opening, cases_response
from antiphon.client.conformance.target import Case

_MODEL = "needs the model"
_DIALECT = "needs a dialect that this server does not have yet"
_CLIENT = "needs a client's own package"

_NOT_RUN = (
    Case(number=66, title="Talker chunk at 4096", note=_MODEL),
    Case(number=68, title="30 minutes with the basic window", note=_MODEL),
    Case(number=73, title="unmodified DuplexClient", note=_CLIENT),
    Case(number=74, title="upstream's command-line demo", note=_CLIENT),
    Case(number=75, title="browser page", note=_CLIENT),
    Case(number=76, title="openai SDK", note=_DIALECT),
    Case(number=77, title="Pipecat", note=_DIALECT),
    Case(number=78, title="LiveKit", note=_DIALECT),
    Case(number=79, title="openbmb_realtime", note=_DIALECT),
    Case(number=83, title="dialect projections", note=_DIALECT),
    Case(number=92, title="choice of the dialect", note=_DIALECT),
    Case(number=93, title="openai: an open microphone, no commit", note=_DIALECT),
    Case(number=94, title="openai: response.create", note=_DIALECT),
    Case(number=98, title="map.realtime", note=_DIALECT),
)

CASES: tuple[Case, ...] = tuple(
    sorted(
        (*cases_opening.CASES, *cases_input.CASES, *cases_response.CASES, *cases_life.CASES, *_NOT_RUN),
        key=lambda case: case.number,
    )
)
