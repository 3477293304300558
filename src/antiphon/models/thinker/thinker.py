"""The Thinker: language model with its vision and audio encoders, under the checkpoint's parameter names."""

from collections.abc import Sequence

from torch import Tensor, nn

from antiphon.config.checkpoint import ModelConfig
from antiphon.layers.kv_cache import Attend
from antiphon.models.thinker.audio_encoder import AudioAttend, AudioEncoder, AudioStreamState, conv_frames
from antiphon.models.thinker.audio_projection import AudioProjection
from antiphon.models.thinker.language_model import LanguageModel
from antiphon.models.thinker.resampler import Resampler
from antiphon.models.thinker.siglip import Grid, SiglipEncoder


class Thinker(nn.Module):
    """Text, pixels and mel in; hidden states and text logits out. Computes in the dtype of its weights."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        hidden_size = config.llm.hidden_size
        self.config = config
        self.llm = LanguageModel(config.llm, config.vocab_size)
        self.vpm = SiglipEncoder(config.vision)
        self.resampler = Resampler(config.num_queries, hidden_size, config.vision.hidden_size)
        self.apm = AudioEncoder(config.audio)
        self.audio_projection_layer = AudioProjection(config.audio.hidden_size, hidden_size, config.audio.pool_step)

    def embed(self, ids: Tensor) -> Tensor:
        """[T] int64 → [T, hidden]."""
        return self.llm.embed(ids)

    def forward(self, embeds: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """[T, hidden] at *positions* [T] int64 → final-norm hidden [T, hidden]."""
        hidden: Tensor = self.llm(embeds, positions, attend)
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., hidden] → [..., vocab] in the model's dtype."""
        return self.llm.logits(hidden)

    def encode_images(self, strips: Sequence[Tensor], grids: Sequence[Grid]) -> list[Tensor]:
        """Images and slices, each a strip [3, P, P·L] with its grid (rows, columns) → [num_queries, hidden] each."""
        rows: list[Tensor] = []
        step = self.config.vision.batch_size
        for start in range(0, len(strips), step):
            batch = grids[start : start + step]
            features, valid = self.vpm(strips[start : start + step], batch)
            rows.extend(self.resampler(features, valid, batch).unbind())
        return rows

    def encode_audio(self, mels: Sequence[Tensor], *, block_mask: bool = True) -> list[Tensor]:
        """All clips of a request, [num_mel_bins, n] each (up to 30 s), as one padded batch → [rows, hidden] each.

        One batch on purpose: clips of unequal length see each other's padding as in the reference.
        """
        if not mels:
            return []
        pooled = self.audio_projection_layer(self.apm(mels, block_mask=block_mask))
        lengths = [self.audio_projection_layer.rows(conv_frames(mel.shape[1])) for mel in mels]
        return [rows[:length] for rows, length in zip(pooled, lengths, strict=True)]

    def new_audio_stream(self) -> AudioStreamState:
        return AudioStreamState(self.config.audio.num_layers)

    def encode_audio_step(self, mel: Tensor, state: AudioStreamState, *, trim_front: int, trim_end: int) -> Tensor:
        """The next chunk [num_mel_bins, n] of a stream → [rows, hidden]; *state* changes in place.

        *trim_front*, *trim_end*: frames to cut after the convolutions (`MelChunk` knows them).
        """
        frames = self.apm.step(mel, state, trim_front=trim_front, trim_end=trim_end)
        rows: Tensor = self.audio_projection_layer(frames)
        return rows

    def encode_audio_units(self, mel: Tensor, is_first: Tensor, lengths: Tensor, attend: AudioAttend) -> Tensor:
        """The next unit of each of several streams → [B, rows, hidden]; see `AudioEncoder.step_units`."""
        rows: Tensor = self.audio_projection_layer(self.apm.step_units(mel, is_first, lengths, attend))
        return rows
