"""What must hold for the events of any session (specification section 7.4), whatever a case is about."""

from collections import Counter
from itertools import pairwise

from antiphon.client.conformance.peer import Event, equal, require

_AFTER_DONE = {
    "playback.acknowledged",
    "output_audio_buffer.cleared",
    "conversation.item.truncated",
    "rate_limits.updated",
}
_DELTAS = {
    "response.output_audio.delta",
    "response.output_audio_transcript.delta",
    "response.output_text.delta",
}


def check_events(events: list[Event]) -> None:
    """Raises MismatchError for the first rule that is broken."""
    _check_ids(events)
    _check_numbers(events)
    created = [response_id_of(event) for event in events if event["type"] == "response.created"]
    require(len(created) == len(set(created)), "a response id was used twice")
    running: str | None = None
    done: set[str] = set()
    for event in events:
        kind = event["type"]
        response_id = response_id_of(event)
        if kind == "response.created":
            require(running is None, "a response began while another one ran")
            running = response_id
        elif isinstance(response_id, str) and kind not in _AFTER_DONE:
            require(response_id not in done, f"{kind} came after its response.done")
            if kind in _DELTAS and response_id in created:  # else it began before this connection
                equal(response_id, running, "the response of a delta")
        if kind == "response.done" and isinstance(response_id, str):
            done.add(response_id)
            running = None
    for response_id in created:
        if response_id in done:
            _check_response([event for event in events if response_id_of(event) == response_id])


def response_id_of(event: Event) -> str | None:
    """Of `response.created` and `response.done` OpenAI's dialect has it inside the response only."""
    response_id = event.get("response_id")
    response = event.get("response")
    if response_id is None and isinstance(response, dict):
        response_id = response.get("id")
    return response_id


def _check_ids(events: list[Event]) -> None:
    counts = Counter(event.get("event_id") for event in events)
    require(
        None not in counts or all(event["type"] == "error" for event in events if "event_id" not in event),
        "an event without id",
    )
    repeated = [key for key, count in counts.items() if key is not None and count > 1]
    require(not repeated, f"event ids were used twice: {repeated[:3]}")


def _check_numbers(events: list[Event]) -> None:
    numbers = [event["server_event_seq"] for event in events if "server_event_seq" in event]
    for before, after in pairwise(numbers):
        equal(after, before + 1, "the next server_event_seq")


def _check_response(events: list[Event]) -> None:
    counts = Counter(event["type"] for event in events)
    for kind in ("response.created", "response.output_item.added", "response.output_item.done", "response.done"):
        equal(counts[kind], 1, f"number of {kind}")
    equal(counts["response.content_part.added"], counts["response.content_part.done"], "content parts begun and done")
    kinds = [event["type"] for event in events]
    audio = [index for index, kind in enumerate(kinds) if kind == "response.output_audio.delta"]
    for index in audio:
        equal(kinds[index + 1], "response.output_audio_transcript.delta", "the event after an audio delta")
    is_plain = all("metadata" not in events[index] for index in audio)  # OpenAI's dialect
    if audio and not is_plain:
        durations = [events[index]["metadata"]["audio_duration_ms"] for index in audio]
        equal(durations, sorted(durations), "audio_duration_ms over a response")
        require("response.speak" in kinds and kinds.index("response.speak") < audio[0], "speech before response.speak")
    _check_texts(events)


def _check_texts(events: list[Event]) -> None:
    done = next(event for event in events if event["type"] == "response.done")
    said = "".join(event["delta"] for event in events if event["type"] == "response.output_audio_transcript.delta")
    whole = [event["transcript"] for event in events if event["type"] == "response.output_audio_transcript.done"]
    output = done["response"]["output"]
    shown = [part["transcript"] for item in output for part in item["content"] if part["type"] == "output_audio"]
    has_audio = any(event["type"] == "response.output_audio.delta" for event in events)
    if not has_audio and not said:
        require(not whole, "output_audio_transcript.done without any output")
        require(
            all(event["type"] != "response.output_audio.done" for event in events), "output_audio.done without audio"
        )
    if whole and shown:
        equal(whole[0], shown[0], "transcript.done against the final item")
        # A truncation may have cut it; a text that was not cut is whole.
        require(said.startswith(whole[0]), "the transcript is not what the deltas said")
