"""What each dialect writes on the wire stays what it is (conformance case 83)."""

import json

import pytest
from realtime_golden import DIALECTS, FOLDER, MAP, conversation, map_conversation


@pytest.mark.parametrize("name", DIALECTS)
def test_a_conversation_reads_as_recorded(name: str):
    expected = (FOLDER / f"{name}.jsonl").read_text("utf-8").splitlines()
    assert conversation(type(DIALECTS[name])()) == expected


def test_a_conversation_of_openbmbs_dialect_reads_as_recorded():
    assert map_conversation() == (FOLDER / f"{MAP}.jsonl").read_text("utf-8").splitlines()


def test_the_legacy_dialect_only_renames():
    plain, legacy = (conversation(type(DIALECTS[name])()) for name in ("vllm", "vllm-legacy"))
    renamed = [json.loads(line)["type"] for line, other in zip(plain, legacy, strict=True) if line != other]
    assert set(renamed) == {
        "response.output_audio.delta",
        "response.output_audio.done",
        "response.output_audio_transcript.delta",
        "response.output_audio_transcript.done",
    }
