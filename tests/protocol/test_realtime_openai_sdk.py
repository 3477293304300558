"""OpenAI's own SDK, unmodified, against a scripted server: the O rows of specification section 22.1."""

import asyncio
from typing import Any

import openai
import pytest
import websockets
from openai import AsyncOpenAI, OpenAI
from realtime_openai import PUSH_TO_TALK, Talk, loud, play, served

TRANSCRIPT = "This is a scripted answer."
ANSWER_BYTES = 192_000


async def spoken(talk: Talk) -> Any:
    """One whole spoken response."""
    done = (await talk.get("response.done")).response
    assert (done.status, done.status_details) == ("completed", None)
    assert done.usage.total_tokens > 0
    assert talk.audio_bytes(done.id) == ANSWER_BYTES
    assert done.output[0].content[0].transcript == TRANSCRIPT
    return done


async def push_to_talk(talk: Talk) -> None:
    await talk.connection.session.update(session=PUSH_TO_TALK)
    updated = (await talk.get("session.updated")).session
    assert updated.audio.input.turn_detection is None
    assert updated.audio.output.voice == "marin"


def test_push_to_talk():
    async def scene(talk: Talk) -> None:
        await push_to_talk(talk)
        await talk.connection.input_audio_buffer.append(audio=loud(1500))
        await talk.connection.input_audio_buffer.commit()
        await talk.connection.response.create()
        await spoken(talk)
        await talk.connection.response.cancel()
        error = await talk.error("response_cancel_not_active")
        assert error.error.message.startswith("Cancellation failed")

    talk = play(scene)
    assert len(talk.of_type("session.updated")) == 1
    assert len(talk.of_type("input_audio_buffer.speech_started")) == 1


def test_response_create_commits_what_was_said():
    async def scene(talk: Talk) -> None:
        await push_to_talk(talk)
        await talk.connection.input_audio_buffer.append(audio=loud(1500))
        await talk.connection.response.create()
        seen = Talk.types(await talk.until("response.created"))
        assert seen[-4:] == [
            "conversation.item.added",
            "input_audio_buffer.committed",
            "conversation.item.done",
            "response.created",
        ]
        await spoken(talk)

    play(scene)


def test_push_to_talk_answers_nothing_that_is_not_asked_for():
    async def scene(talk: Talk) -> None:
        await push_to_talk(talk)
        await talk.connection.input_audio_buffer.append(audio=loud(1500))
        await talk.connection.input_audio_buffer.commit()
        await talk.get("conversation.item.done")
        assert await talk.pause(1.5) == []
        await talk.connection.response.create()
        await spoken(talk)

    play(scene)


@pytest.mark.parametrize("kind", [None, "semantic_vad", "server_vad"])
def test_an_open_microphone_gives_each_turn_an_item_and_a_response(kind: str | None):
    async def scene(talk: Talk) -> None:
        if kind is not None:
            detection: Any = {"type": kind}
            await talk.connection.session.update(
                session={"type": "realtime", "audio": {"input": {"turn_detection": detection}}}
            )
            await talk.get("session.updated")
        for _ in range(2):
            await talk.say(1600, silence_ms=1600)
            await spoken(talk)
        await talk.pause(0.3)
        assert not talk.of_type("error")

    talk = play(scene)
    ids = [event.item_id for event in talk.of_type("input_audio_buffer.speech_started")]
    assert len(set(ids)) == 2
    for kind_of_event in ("speech_started", "speech_stopped", "committed"):
        events = talk.of_type(f"input_audio_buffer.{kind_of_event}")
        assert [event.item_id for event in events] == ids
    added = [event.item for event in talk.of_type("conversation.item.added")]
    assert [item.role for item in added] == ["user", "assistant", "user", "assistant"]
    assert len(talk.of_type("response.created")) == 2


def test_a_text_may_open_the_conversation():
    async def scene(talk: Talk) -> None:
        await talk.connection.conversation.item.create(
            item={"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Tell me a story."}]}
        )
        await talk.connection.response.create(response={"instructions": "Be brief.", "metadata": {"topic": "story"}})
        created = await talk.get("response.created")
        assert created.response.metadata == {"topic": "story"}
        done = await spoken(talk)
        assert done.metadata == {"topic": "story"}

    play(scene)


def test_cancel_truncate_clear_and_delete():
    async def scene(talk: Talk) -> None:
        await push_to_talk(talk)
        connection = talk.connection
        await connection.input_audio_buffer.append(audio=loud(1500))
        await connection.response.create()
        delta = await talk.get("response.output_audio.delta")
        await connection.response.cancel()
        done = (await talk.get("response.done")).response
        assert (done.status, done.status_details.reason) == ("cancelled", "client_cancelled")
        assert done.output[0].status == "incomplete"
        await connection.conversation.item.truncate(item_id=delta.item_id, content_index=0, audio_end_ms=500)
        assert (await talk.get("conversation.item.truncated")).audio_end_ms == 500
        await connection.input_audio_buffer.append(audio=loud(200))
        await connection.input_audio_buffer.clear()
        await talk.get("input_audio_buffer.cleared")
        await connection.conversation.item.retrieve(item_id=delta.item_id)
        assert (await talk.get("conversation.item.retrieved")).item.id == delta.item_id
        await connection.conversation.item.delete(item_id=delta.item_id)
        assert (await talk.get("conversation.item.deleted")).item_id == delta.item_id

    play(scene)


def test_a_truncation_beyond_the_end_is_clamped():
    async def scene(talk: Talk) -> None:
        await talk.say(1600, silence_ms=1600)
        done = await spoken(talk)
        await talk.connection.conversation.item.truncate(
            item_id=done.output[0].id, content_index=0, audio_end_ms=60_000
        )
        assert (await talk.get("conversation.item.truncated")).audio_end_ms == 4000

    play(scene)


def test_a_request_joins_the_response_that_the_model_started():
    async def scene(talk: Talk) -> None:
        await talk.say(1600, silence_ms=1600)
        await talk.get("response.created")
        await talk.connection.response.create(response={"metadata": {"client_event_id": "e1"}})
        done = await spoken(talk)
        assert done.metadata == {"client_event_id": "e1"}

    assert len(play(scene).of_type("response.created")) == 1


def test_a_second_request_is_refused_while_the_first_is_answered():
    async def scene(talk: Talk) -> None:
        await talk.say(1400)
        await talk.connection.response.create()
        await talk.connection.response.create()
        await talk.error("conversation_already_has_active_response")
        await spoken(talk)

    play(scene)


def test_a_request_with_nothing_to_answer_is_still_answered():
    async def scene(talk: Talk) -> None:
        await talk.connection.response.create()
        done = (await talk.get("response.done", timeout_s=15)).response
        assert (done.status, done.status_details) == ("completed", None)
        assert done.output[0].content[0].transcript == ""

    play(scene)


def test_a_text_session_has_text_events_only():
    async def scene(talk: Talk) -> None:
        await talk.connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
        assert (await talk.get("session.updated")).session.output_modalities == ["text"]
        await talk.say(1600, silence_ms=1600)
        done = (await talk.get("response.done")).response
        assert done.output_modalities == ["text"]
        assert done.output[0].content[0].text == TRANSCRIPT

    talk = play(scene)
    assert "".join(event.delta for event in talk.of_type("response.output_text.delta")) == TRANSCRIPT
    assert not [event for event in talk.events if "audio" in event.type and event.type.startswith("response")]


def test_telephone_speech_goes_out_and_in():
    async def scene(talk: Talk) -> None:
        form: Any = {"type": "audio/pcmu"}
        await talk.connection.session.update(
            session={"type": "realtime", "audio": {"input": {"format": form}, "output": {"format": form}}}
        )
        shown = (await talk.get("session.updated")).session.audio
        assert (shown.input.format.type, shown.output.format.type) == ("audio/pcmu", "audio/pcmu")
        await talk.connection.session.update(
            session={"type": "realtime", "audio": {"input": {"format": {"type": "audio/pcm", "rate": 24_000}}}}
        )
        await talk.get("session.updated")
        await talk.say(1600, silence_ms=1600)
        done = (await talk.get("response.done")).response
        assert talk.audio_bytes(done.id) == 4 * 8000

    play(scene)


@pytest.mark.parametrize(
    ("session", "code", "param"),
    [
        ({"temperature": 0.5}, "invalid_session_config", "session.temperature"),
        ({"audio": {"input": {"format": {"type": "audio/opus"}}}}, "unsupported_audio_format", "audio.input.format"),
        ({"audio": {"output": {"format": {"type": "audio/pcm", "rate": 16000}}}}, "unsupported_audio_format", None),
        ({"audio": {"input": {"turn_detection": {"type": "other"}}}}, "unsupported_turn_detection", "turn_detection"),
    ],
)
def test_what_is_not_honoured_is_refused_by_name(session: Any, code: str, param: str | None):
    async def scene(talk: Talk) -> None:
        await talk.connection.session.update(session={"type": "realtime", **session}, event_id="mine")
        error = (await talk.error(code)).error
        assert error.event_id == "mine"
        assert param is None or error.param == param

    play(scene)


# The SDK opens its socket in a way that newer releases of the websockets package advise against.
@pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager:DeprecationWarning")
def test_the_synchronous_client():
    async def run() -> list[str]:
        async with served() as (base_url, _):
            return await asyncio.to_thread(_synchronous, base_url)

    assert asyncio.run(run()) == ["session.created", "session.updated"]


def _synchronous(base_url: str) -> list[str]:
    with OpenAI(base_url=base_url, api_key="none") as client, client.realtime.connect(model="m") as connection:
        created = connection.recv()
        connection.session.update(session=PUSH_TO_TALK)
        return [created.type, connection.recv().type]


def test_a_wrong_key_is_refused_before_the_upgrade():
    async def first_event(key: str) -> str:
        async with (
            served(profile="keyed") as (base_url, _),
            AsyncOpenAI(base_url=base_url, api_key=key) as client,
            client.realtime.connect(model="m") as connection,
        ):
            return str((await connection.recv()).type)

    assert asyncio.run(first_event("secret")) == "session.created"
    with pytest.raises((websockets.InvalidStatus, openai.APIError), match="401"):
        asyncio.run(first_event("wrong"))
