"""What a client is told when something is wrong: a status and OpenAI's body, without anything of the inside."""

import logging
from dataclasses import dataclass

from starlette.responses import JSONResponse

from antiphon.core.errors import (
    AntiphonError,
    CapacityError,
    MediaError,
    PromptError,
    SamplingError,
    StateError,
)
from antiphon.telemetry.logs import FIELDS
from antiphon.wire.errors import ErrorBody, ErrorDetail
from antiphon.wire.parse import WireError

_log = logging.getLogger(__name__)

BAD_REQUEST, NOT_FOUND, UNAVAILABLE = 400, 404, 503
RETRY_AFTER_S = 1
INTERNAL_TEXT = "The server failed to answer this request."


class HttpError(AntiphonError):
    """A refusal with a status of its own."""

    code = "http"

    def __init__(self, status: int, message: str, *, kind: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.param = param


class StageFailedError(AntiphonError):
    """A stage of the pipeline gave the request up."""

    code = "stage_failed"

    def __init__(self, error: AntiphonError, stage: str | None) -> None:
        super().__init__(str(error))
        self.error = error
        self.stage = stage


@dataclass(frozen=True)
class Problem:
    """One error as it goes to the client."""

    status: int
    kind: str
    message: str
    param: str | None = None
    stage: str | None = None

    def detail(self, request_id: str | None) -> ErrorDetail:
        return ErrorDetail(
            message=self.message,
            type=self.kind,
            param=self.param,
            code=self.status,
            request_id=request_id if self.status >= 500 else None,
        )


def problem_of(error: BaseException, *, stage: str | None = None) -> Problem:
    """What *error* is for the client. What is not the client's fault is logged here, and not explained to it."""
    if isinstance(error, StageFailedError):
        return problem_of(error.error, stage=error.stage)
    if isinstance(error, HttpError):
        return Problem(error.status, error.kind, str(error), error.param)
    if isinstance(error, WireError):
        return Problem(BAD_REQUEST, "BadRequestError", str(error), error.param)
    if isinstance(error, (MediaError, PromptError, SamplingError)):
        return Problem(BAD_REQUEST, "BadRequestError", one_line(str(error)), _param_of(error))
    if isinstance(error, (CapacityError, StateError)):
        return Problem(UNAVAILABLE, "ServiceUnavailableError", one_line(str(error)))
    _log.error("a request failed", exc_info=error, extra={FIELDS: {"stage": stage}} if stage else None)
    return Problem(500, "InternalServerError", INTERNAL_TEXT, stage=stage)


def error_response(problem: Problem, request_id: str | None = None) -> JSONResponse:
    """The reply for *problem*."""
    headers = {"Retry-After": str(RETRY_AFTER_S)} if problem.status == UNAVAILABLE else None
    return JSONResponse(error_document(problem, request_id), status_code=problem.status, headers=headers)


def error_document(problem: Problem, request_id: str | None = None) -> dict[str, object]:
    """The body for *problem*; a stage that failed is named by its number, as in the reference."""
    body = ErrorBody(error=problem.detail(request_id)).model_dump()
    if request_id is None or problem.status < 500:
        del body["error"]["request_id"]
    if problem.stage is not None:
        body["error"]["error_stage_id"] = {"thinker": 0, "talker": 1, "code2wav": 2}.get(problem.stage)
    return body


def one_line(text: str) -> str:
    """Without line breaks and control characters."""
    return "".join(character if character.isprintable() else " " for character in text)


def _param_of(error: AntiphonError) -> str | None:
    """Messages about sampling start with the field's name."""
    word = str(error).split(" ", 1)[0].rstrip(":")
    return word if isinstance(error, SamplingError) and word.isidentifier() else None
