from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from antiphon.core.errors import MediaError
from antiphon.pipeline.build import build_omni_model
from antiphon.pipeline.eager.voices import prepare_voice_features
from antiphon.pipeline.omni_model import OmniModel


@pytest.fixture(scope="module")
def model(tiny_checkpoint: Path) -> OmniModel:
    return build_omni_model(tiny_checkpoint, device=torch.device("cpu"))


def test_without_a_recording_the_checkpoint_s_own_voice_is_used(model: OmniModel) -> None:
    assert model.folder is not None
    default = prepare_voice_features(model, None)
    same = prepare_voice_features(model, model.folder / "assets" / "HT_ref_audio.wav")
    assert np.array_equal(default.codes, same.codes)
    assert np.array_equal(default.mel, same.mel)


def test_a_recording_gives_another_voice(model: OmniModel, tone: Callable[..., NDArray[np.float32]]) -> None:
    voice = prepare_voice_features(model, (tone(2.0, 24_000), 24_000))
    assert len(voice.mel) == 2 * len(voice.codes) == 100
    assert not np.array_equal(voice.xvector, prepare_voice_features(model, None).xvector)


def test_a_model_without_files_speaks_in_a_made_up_voice(
    model: OmniModel, tone: Callable[..., NDArray[np.float32]]
) -> None:
    bare = replace(model, folder=None)
    voice = prepare_voice_features(bare, None)
    assert len(voice.mel) == 2 * len(voice.codes)
    with pytest.raises(MediaError, match=r"reference voice.*leave it out"):
        prepare_voice_features(bare, (tone(2.0), 16_000))


def test_an_unusable_recording_is_an_error_never_another_voice(model: OmniModel, tmp_path: Path) -> None:
    (tmp_path / "voice.wav").write_bytes(b"no audio" * 50)
    with pytest.raises(MediaError, match=r"voice.wav"):
        prepare_voice_features(model, tmp_path / "voice.wav")
