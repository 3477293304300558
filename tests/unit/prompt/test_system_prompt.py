"""The system messages of each way of speaking."""

import numpy as np
import pytest

from antiphon.core.errors import PromptError
from antiphon.prompt.messages import AudioPart, TextPart
from antiphon.prompt.system_prompt import DEFAULT_TEXT, system_prompt

REFERENCE = AudioPart(np.zeros(1600, dtype=np.float32))


@pytest.mark.parametrize("mode", ["omni", "audio_assistant", "audio_roleplay", "voice_cloning"])
def test_the_recording_follows_the_first_text(mode: str) -> None:
    parts = system_prompt(mode, "en", REFERENCE).parts
    assert isinstance(parts[0], TextPart)
    assert parts[1] is REFERENCE
    assert len(parts) == (2 if mode == "voice_cloning" else 3)


def test_without_recording_a_built_in_voice_is_asked_for() -> None:
    parts = system_prompt("audio_assistant").parts
    assert parts[0] == TextPart("Use the <reserved_53> voice.")
    assert parts[1] == TextPart("You are a helpful assistant with the above voice style.")


def test_omni_without_recording_is_empty() -> None:
    assert system_prompt("omni", "zh").parts == (TextPart(""),)


def test_cloning_without_recording_is_refused() -> None:
    with pytest.raises(PromptError, match="needs a reference recording"):
        system_prompt("voice_cloning")


def test_an_unknown_mode_means_the_default_text_without_recording() -> None:
    assert system_prompt("anything", "zh", REFERENCE).parts == (TextPart(DEFAULT_TEXT),)


def test_only_zh_is_chinese() -> None:
    assert system_prompt("omni", "fr", REFERENCE) == system_prompt("omni", "en", REFERENCE)
    assert system_prompt("omni", "zh", REFERENCE) != system_prompt("omni", "en", REFERENCE)
