"""Front-end features against the libraries that define them."""

import warnings
from collections.abc import Callable
from itertools import pairwise
from types import ModuleType

import librosa
import numpy as np
import pytest
import torch
from torch import nn

from antiphon.audio.mel import Floor, log_mel
from antiphon.audio.mel_filters import slaney_filters
from antiphon.audio.s3_windows import join_codes, window_spans
from antiphon.audio.voice_mel import fit_frames, voice_mel
from antiphon.models.code2wav.s3_tokenizer import S3Config, S3Tokenizer

Oracle = Callable[[str], ModuleType]


def noise(num_samples: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return (np.random.default_rng(num_samples).standard_normal(num_samples) * 0.1).astype(np.float32)


@pytest.mark.parametrize("num_samples", [721, 4_800, 24_037])
def test_the_vocoders_mel_is_the_references(stepaudio2: Oracle, num_samples: int) -> None:
    samples = noise(num_samples)
    theirs = stepaudio2("flashcosyvoice.utils.audio").mel_spectrogram(torch.from_numpy(samples)[None])
    np.testing.assert_allclose(voice_mel(samples).T, theirs[0].numpy(), atol=1e-4)


def test_the_vocoders_filters_are_librosas() -> None:
    theirs = librosa.filters.mel(sr=24_000, n_fft=1920, n_mels=80, fmin=0, fmax=8_000)
    np.testing.assert_allclose(slaney_filters(24_000, 1920, 80, 8_000.0), theirs, atol=1e-8)


@pytest.mark.parametrize("missing", [-3, 0, 4])
def test_fitting_frames_is_replicate_padding_of_either_sign(missing: int) -> None:
    mel = np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32)
    theirs = torch.nn.functional.pad(torch.from_numpy(mel)[None], (0, 0, 0, missing), mode="replicate")
    np.testing.assert_array_equal(fit_frames(mel, 7 + missing), theirs[0].numpy())


def test_the_tokenizers_mel_is_the_references(s3tokenizer: ModuleType) -> None:
    samples = noise(5_003)
    theirs = s3tokenizer.log_mel_spectrogram(torch.from_numpy(samples)).numpy()
    np.testing.assert_allclose(log_mel(samples, floor=Floor.DYNAMIC, num_bins=128), theirs, atol=1e-4)


@pytest.fixture(scope="module")
def tokenizers(s3tokenizer: ModuleType) -> tuple[nn.Module, S3Tokenizer]:
    model_v2 = s3tokenizer.model_v2
    config = model_v2.ModelConfig(n_audio_state=128, n_audio_head=2, n_audio_layer=2)
    torch.manual_seed(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = model_v2.S3TokenizerV2("tiny v2", config)
    for parameter in reference.parameters():
        torch.nn.init.normal_(parameter, std=0.15)
    weights = reference.state_dict()
    ours = S3Tokenizer(S3Config.from_shapes({name: tuple(value.shape) for name, value in weights.items()}))
    ours.load_state_dict(weights)
    return reference.eval().requires_grad_(False), ours.eval().requires_grad_(False)


def test_a_ragged_batch_has_the_references_codes(tokenizers: tuple[nn.Module, S3Tokenizer]) -> None:
    reference, ours = tokenizers
    mel, length = torch.randn(3, 128, 57), torch.tensor([57, 22, 1])
    theirs, their_len = reference.quantize(mel, length)
    codes, code_len = ours(mel, length)
    assert code_len.tolist() == their_len.tolist()
    for row, num_codes in enumerate(code_len.tolist()):
        assert codes[row, :num_codes].tolist() == theirs[row, :num_codes].tolist()
    assert len(set(codes[0].tolist())) > 8


@pytest.mark.parametrize("num_frames", [3_001, 5_300, 5_500, 5_600, 5_601])
def test_over_30_seconds_the_windows_are_joined_as_in_the_reference(
    tokenizers: tuple[nn.Module, S3Tokenizer], num_frames: int
) -> None:
    reference, ours = tokenizers
    mel = torch.from_numpy(np.random.default_rng(1).standard_normal((1, 128, num_frames)).astype(np.float32))
    theirs, their_len = reference.quantize(mel, torch.tensor([num_frames]))
    windows = []
    for start, end in window_spans(num_frames):
        codes, _ = ours(mel[:, :, start:end], torch.tensor([end - start]))
        windows.append(codes[0].numpy())
    assert join_codes(windows).tolist() == theirs[0, : int(their_len[0])].tolist()


def test_windows_overlap_by_4_seconds() -> None:
    assert all(first[1] - second[0] == 400 for first, second in pairwise(window_spans(9_000)))
