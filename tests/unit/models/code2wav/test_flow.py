import pytest
import torch

from antiphon.core.errors import MediaError
from antiphon.models.code2wav.code2wav import Code2Wav
from antiphon.models.code2wav.flow import VoicePrompt


def test_a_voice_whose_mel_does_not_match_its_codes_is_refused() -> None:
    with pytest.raises(MediaError, match="59 mel frames for 30 codec ids"):
        VoicePrompt(torch.zeros(1, 30, dtype=torch.int64), torch.zeros(1, 5), torch.zeros(1, 6, 59))


def test_caches_stop_growing_100_frames_after_the_prompt(
    code2wav: Code2Wav, voice: VoicePrompt, noise: torch.Tensor
) -> None:
    flow = code2wav.flow
    state, speaker = flow.start(voice, noise, 2), flow.speaker(voice.xvector)
    lengths = [len(state.solver)]
    for _ in range(4):
        mel, state = flow.chunk(torch.randint(0, 4000, (1, 28)), speaker, state, noise, is_last=False)
        assert mel.shape == (1, 6, 50)
        assert len(state.encoder) == len(state.solver)
        assert state.encoder.token_kv.shape[3] * 2 == len(state.solver)
        lengths.append(len(state.solver))
    assert lengths == [60, 110, 160, 160, 160]


def test_all_codes_of_a_last_chunk_are_voiced(code2wav: Code2Wav, voice: VoicePrompt, noise: torch.Tensor) -> None:
    flow = code2wav.flow
    mel, _ = flow.chunk(
        torch.arange(28)[None], flow.speaker(voice.xvector), flow.start(voice, noise, 2), noise, is_last=True
    )
    assert mel.shape == (1, 6, 56)


def test_loudness_of_the_speaker_vector_does_not_matter(code2wav: Code2Wav, voice: VoicePrompt) -> None:
    torch.testing.assert_close(code2wav.flow.speaker(voice.xvector * 7), code2wav.flow.speaker(voice.xvector))


def test_ids_below_zero_count_as_zero(code2wav: Code2Wav) -> None:
    assert torch.equal(code2wav.flow.embed(torch.tensor([[-1]])), code2wav.flow.embed(torch.tensor([[0]])))
