"""The body of every error: OpenAI's."""

from pydantic import BaseModel


class ErrorDetail(BaseModel):
    message: str
    type: str
    param: str | None = None
    code: int | str | None = None
    request_id: str | None = None


class ErrorBody(BaseModel):
    error: ErrorDetail
