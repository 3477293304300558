from pathlib import Path

import pytest
import torch

from antiphon.audio.voice_features import VoiceFrontEnd
from antiphon.core.errors import CapacityError
from antiphon.models.code2wav.hift_source import NoSourceNoise
from antiphon.pipeline.build import build_omni_model
from antiphon.pipeline.eager.vocoder import Vocoder


@pytest.fixture(scope="module")
def vocoder(tiny_checkpoint: Path) -> Vocoder:
    model = build_omni_model(tiny_checkpoint, device=torch.device("cpu"))
    assert model.code2wav is not None
    voice = VoiceFrontEnd(tiny_checkpoint / "assets" / "token2wav").prepare(
        tiny_checkpoint / "assets" / "HT_ref_audio.wav"
    )
    noise = torch.randn(1, 80, 400, generator=torch.Generator().manual_seed(0))
    return Vocoder(model.code2wav, voice, num_steps=2, noise=noise, source_noise=NoSourceNoise())


def test_an_utterance_is_960_samples_a_code(vocoder: Vocoder) -> None:
    samples = vocoder.speak([5, 6, 7])
    assert samples.shape == (2_880,)
    assert samples.dtype == torch.float32


def test_no_codes_are_no_samples(vocoder: Vocoder) -> None:
    assert vocoder.speak([]).shape == (0,)
    assert vocoder.stream().push([], first=True, end_of_turn=False).shape == (0,)


def test_units_of_a_turn_have_the_lengths_of_the_protocol(vocoder: Vocoder) -> None:
    stream, unit = vocoder.stream(), list(range(25))
    lengths = [len(stream.push(unit, first=index == 0, end_of_turn=index == 2)) for index in range(3)]
    assert lengths == [20_160, 24_000, 30_720]


def test_a_turn_of_one_unit_is_26880_samples(vocoder: Vocoder) -> None:
    assert len(vocoder.stream().push(list(range(25)), first=True, end_of_turn=True)) == 26_880


def test_every_turn_starts_from_the_voice_alone(vocoder: Vocoder) -> None:
    stream, unit = vocoder.stream(), list(range(25))
    first = stream.push(unit, first=True, end_of_turn=True)
    assert torch.equal(stream.push(unit, first=True, end_of_turn=True), first)


def test_a_reset_forgets_codes_and_caches(vocoder: Vocoder) -> None:
    stream, unit = vocoder.stream(), list(range(25))
    first = stream.push(unit, first=True, end_of_turn=False)
    stream.push(list(range(50, 60)), first=False, end_of_turn=False)
    stream.reset()
    assert torch.equal(stream.push(unit, first=True, end_of_turn=False), first)


def test_the_end_id_is_refused_by_number(vocoder: Vocoder) -> None:
    num_ids = vocoder.code2wav.flow.config.num_codec_ids
    with pytest.raises(CapacityError, match=f"codec id {num_ids} is not one of"):
        vocoder.speak([1, num_ids])
