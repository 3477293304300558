"""Sessions beside requests, and sessions beside too many others: the clock is moved by hand."""

from dataclasses import replace

import pytest
from duplex_engine import Script, World, deploy_for, expect, make_twin, talkative_model

from antiphon.core.sampling import DEFAULT_STAGE_PARAMS
from antiphon.pipeline.messages import FrontMessage, TextEnd, TextTokens
from antiphon.pipeline.omni_model import OmniModel
from antiphon.pipeline.request import GenerationRequest
from antiphon.pipeline.voice_book import VoiceBook
from antiphon.prompt.chat_prompt import build_chat_prompt
from antiphon.prompt.messages import Message, TextPart

ONE_SEAT = '{"0": {"max_num_seqs": 1}}'
CHAT = 200  # tokens


@pytest.fixture(scope="module")
def model(tiny_checkpoint: object) -> OmniModel:
    return talkative_model(tiny_checkpoint)


def chat(model: OmniModel) -> GenerationRequest:
    text, talker, code2wav = DEFAULT_STAGE_PARAMS
    return GenerationRequest(
        request_id="chat",
        prompt=build_chat_prompt(
            (Message("user", (TextPart("Say something long."),)),),
            model.tokenizer,
            model.image_config,
            join="",
            use_tts_template=False,
        ),
        sampling=(replace(text, max_tokens=CHAT, ignore_eos=True, seed=4), talker, code2wav),
    )


def watch(world: World) -> list[FrontMessage]:
    """What the stages say of the chat from now on."""
    seen: list[FrontMessage] = []
    tell = world.engine._deliver

    def tap(message: FrontMessage) -> None:
        if getattr(message, "request_id", None) == "chat":
            seen.append(message)
        tell(message)

    world.engine._deliver = tap
    return seen


def ids_of(messages: list[FrontMessage]) -> list[int]:
    return [token for message in messages if isinstance(message, TextTokens) for token in message.ids]


def has_ended(messages: list[FrontMessage]) -> bool:
    return any(isinstance(message, TextEnd) for message in messages)


def test_a_unit_takes_the_only_seat_from_a_request_and_both_end_as_alone(model: OmniModel) -> None:
    script = Script(seed=1, num_units=3)
    alone = World(model, deploy_for(stage_overrides=ONE_SEAT))
    wanted = watch(alone)
    alone.engine.submit(chat(model))
    alone.run_until(lambda: has_ended(wanted))

    world = World(model, deploy_for(stage_overrides=ONE_SEAT))
    seen = watch(world)
    session = world.open("a", script)
    session.is_paused = True
    world.run_until(lambda: session.can_send)
    world.engine.submit(chat(model))
    world.run_until(lambda: len(ids_of(seen)) > 10)
    session.is_paused = False
    world.run()
    assert len(ids_of(seen)) < CHAT
    expect(session, make_twin(model, VoiceBook(model).prepare(None))(script))
    world.run_until(lambda: has_ended(seen))
    assert ids_of(seen) == ids_of(wanted)
    assert len(ids_of(seen)) == CHAT
    world.close()
    assert world.held() == {}


def test_slow_units_close_the_door_until_they_are_forgotten(model: OmniModel) -> None:
    world = World(model)
    session = world.open("a", Script(seed=1, num_units=25, speaks=False))
    front = world.engine.duplex
    while not session.is_done:
        world.step()
        world.now_s += 0.2
    assert front.projected_unit_s is not None
    assert front.projected_unit_s > 0.9
    assert not front.has_room
    world.now_s += 31.0
    assert front.has_room
    world.close()
    assert world.held() == {}


def test_units_in_time_leave_the_door_open(model: OmniModel) -> None:
    world = World(model)
    session = world.open("a", Script(seed=1, num_units=25, speaks=False))
    world.run()
    assert [event.late_s for event in session.finished] == [0.0] * 25
    assert world.engine.duplex.projected_unit_s == 0.0
    assert world.engine.duplex.has_room
    world.close()
