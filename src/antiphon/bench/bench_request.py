"""One request of a data set, and the JSON body it becomes for a backend."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from antiphon.bench.settings import Backend


@dataclass(frozen=True, kw_only=True)
class BenchRequest:
    """What a data set asks.

    Attributes:
        messages: chat messages as they go over the wire.
        speech_text: what the speech backend is to say.
        prompt_len_tokens: as counted here; media do not count.
        max_tokens: most text tokens of the answer.
        fields: further fields at the root of the body.
    """

    messages: Sequence[Mapping[str, object]]
    speech_text: str
    prompt_len_tokens: int
    max_tokens: int
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class BodyOptions:
    """What every body of a run has besides its row. `extra_body` is merged last, at the root."""

    backend: Backend
    model: str
    sampling: Mapping[str, object] = field(default_factory=dict)
    has_stage_metrics: bool = False
    extra_body: Mapping[str, object] = field(default_factory=dict)


def render_body(request: BenchRequest, options: BodyOptions) -> dict[str, object]:
    """The JSON body of *request*."""
    body: dict[str, object] = {"model": options.model} if options.model else {}
    if options.backend is Backend.SPEECH:
        body |= {"input": request.speech_text, "response_format": "pcm", "stream": True}
        return {**body, **request.fields, **options.extra_body}
    body |= {"messages": list(request.messages), "max_tokens": request.max_tokens, "stream": True}
    body |= {"temperature": 0.0, **options.sampling}
    if options.backend is Backend.CHAT_OMNI:
        body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
        if options.has_stage_metrics:
            body["return_stage_metrics"] = True
    else:
        body["stream_options"] = {"include_usage": True}
    return {**body, **request.fields, **options.extra_body}


def user_message(*parts: Mapping[str, object]) -> dict[str, object]:
    """A message of the user; a lone text part becomes plain text, which every server takes."""
    if len(parts) == 1 and parts[0].get("type") == "text":
        return {"role": "user", "content": parts[0]["text"]}
    return {"role": "user", "content": list(parts)}


def text_part(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


def url_part(kind: str, url: str) -> dict[str, object]:
    """A media part by address; *kind* is image, audio or video."""
    return {"type": f"{kind}_url", f"{kind}_url": {"url": url}}
