"""The description of the HTTP interface, made of the wire's types."""

from collections.abc import Mapping

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from antiphon import __version__
from antiphon.wire.chat import ChatRequest
from antiphon.wire.errors import ErrorBody
from antiphon.wire.models import ModelCard, ModelList
from antiphon.wire.reply import Completion, CompletionChunk
from antiphon.wire.speech import SpeechRequest

_TYPES: tuple[type[BaseModel], ...] = (
    *(ChatRequest, Completion, CompletionChunk, SpeechRequest, ModelList, ModelCard, ErrorBody),
)
_REF = "#/components/schemas/{model}"
_ERRORS = {400: "The request is wrong.", 401: "The key is missing or wrong.", 404: "No such model.", 413: "Too large."}
_BUSY = {500: "The server failed.", 503: "Too busy, or shutting down."}


def openapi_document(*, has_keys: bool) -> dict[str, object]:
    """OpenAPI 3.1."""
    references, definitions = models_json_schema(
        [(kind, "validation" if kind in (ChatRequest, SpeechRequest) else "serialization") for kind in _TYPES],
        ref_template=_REF,
    )
    by_type = {kind: schema for (kind, _), schema in references.items()}
    error = by_type[ErrorBody]
    chat_reply = {
        "application/json": {"schema": by_type[Completion]},
        "text/event-stream": {"schema": {"type": "string", "description": "With stream: chunks, then [DONE]."}},
    }
    audio = {"schema": {"type": "string", "format": "binary"}}
    speech_reply = {
        **dict.fromkeys(("audio/wav", "audio/pcm", "audio/flac", "audio/mpeg", "audio/ogg"), audio),
        "text/event-stream": {"schema": {"type": "string"}},
    }
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    paths: dict[str, object] = {
        "/v1/chat/completions": {
            "post": _post("Answer a conversation with text and speech", by_type[ChatRequest], chat_reply, error)
        },
        "/v1/audio/speech": {
            "post": _post("Speak a text in a reference voice", by_type[SpeechRequest], speech_reply, error)
        },
        "/v1/models": {"get": _get("The served names", {"application/json": {"schema": by_type[ModelList]}})},
        "/v1/models/{name}": {
            "get": {
                **_get("One served name", {"application/json": {"schema": by_type[ModelCard]}}, {404: error}),
                "parameters": [name],
            }
        },
        "/health": {"get": _get("Health of all stages", _anything(), {503: {}})},
        "/health/live": {"get": _get("Whether a restart is not needed", _anything(), {503: {}})},
        "/health/ready": {"get": _get("Whether requests are taken", _anything(), {503: {}})},
        "/metrics": {"get": _get("Prometheus metrics", {"text/plain": {"schema": {"type": "string"}}})},
        "/version": {"get": _get("The version", _anything())},
    }
    components: dict[str, object] = {"schemas": definitions.get("$defs", {})}
    document: dict[str, object] = {
        "openapi": "3.1.0",
        "info": {"title": "Antiphon", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": components,
    }
    if has_keys:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"key": []}]
    return document


_ABOUT = "OpenAI's chat completions with speech, in the shapes of OpenAI and of vLLM-Omni."


def _anything() -> dict[str, object]:
    return {"application/json": {"schema": {"type": "object"}}}


def _post(
    about: str, body: Mapping[str, object], reply: Mapping[str, object], error: Mapping[str, object]
) -> dict[str, object]:
    failures = {
        str(status): {"description": text, "content": {"application/json": {"schema": error}}}
        for status, text in {**_ERRORS, **_BUSY}.items()
    }
    return {
        "summary": about,
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {"200": {"description": "The answer.", "content": reply}, **failures},
    }


def _get(
    about: str, reply: Mapping[str, object], failures: Mapping[int, Mapping[str, object]] | None = None
) -> dict[str, object]:
    others = {
        str(status): {
            "description": "Not so.",
            "content": {"application/json": {"schema": schema or {"type": "object"}}},
        }
        for status, schema in (failures or {}).items()
    }
    return {"summary": about, "responses": {"200": {"description": about, "content": reply}, **others}}
