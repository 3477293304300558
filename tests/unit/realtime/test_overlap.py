from typing import Any

import pytest

from antiphon.realtime.overlap import Action, Overlap, decide
from antiphon.realtime.settings import OverlapPolicy

LISTEN, BARGE = OverlapPolicy.LISTEN_ONLY, OverlapPolicy.BARGE_IN


def verdict(**fields: Any):
    defaults: dict[str, Any] = {"is_auto": False, "policy": LISTEN, "is_speech": True, "speech_ms": 900}
    return decide(Overlap(**{**defaults, **fields}, short_ack_ms=700))


@pytest.mark.parametrize(
    ("fields", "action", "reason"),
    [
        ({"asked_action": "interrupt"}, Action.BARGE_IN, "client_overlap_action"),
        ({"asked_action": "continue"}, Action.LISTEN, "client_overlap_action"),
        ({"asked_action": "ignore"}, Action.DROP, "client_overlap_action"),
        ({"force_barge_in": True}, Action.BARGE_IN, "client_force_barge_in"),
        ({"is_auto": True, "policy": BARGE, "vad_started": True}, Action.BARGE_IN, "server_vad_speech_started"),
        ({"is_auto": True, "policy": BARGE}, Action.BARGE_IN, "barge_in_on_speech"),
        ({"is_auto": True, "policy": BARGE, "vad_started": False}, Action.LISTEN, "auto_response_continuous"),
        ({"is_auto": True}, Action.LISTEN, "auto_response_continuous"),
        ({"force_listen": True}, Action.LISTEN, "client_force_listen"),
        ({"is_speech": False}, Action.DROP, "silence_or_noise"),
        ({"is_speech": False, "has_frames": True}, Action.LISTEN, "vision_follow"),
        ({"transcript": "Yeah!"}, Action.LISTEN, "short_ack_transcript"),
        ({"transcript": "go  on."}, Action.LISTEN, "short_ack_transcript"),
        ({"transcript": "好的。"}, Action.LISTEN, "short_ack_transcript"),
        ({}, Action.LISTEN, "policy_listen_only"),
        ({"policy": BARGE, "vad_started": True}, Action.BARGE_IN, "server_vad_speech_started"),
        ({"policy": BARGE}, Action.BARGE_IN, "policy_barge_in_on_speech"),
        ({"policy": BARGE, "vad_started": False}, Action.LISTEN, "server_vad_utterance_active"),
    ],
)
def test_the_first_row_that_applies_decides(fields, action, reason):
    found = verdict(**fields)
    assert (found.action, found.reason) == (action, reason)


def test_an_acknowledgement_word_leaves_no_audio():
    assert not verdict(transcript="okay").keeps_audio
    assert verdict().is_deferred


def test_listen_keeps_audio_that_is_longer_than_an_acknowledgement():
    assert verdict(asked_action="listen", speech_ms=701).keeps_audio
    assert not verdict(asked_action="listen", speech_ms=700).keeps_audio
    assert not verdict(asked_action="continue").keeps_audio
