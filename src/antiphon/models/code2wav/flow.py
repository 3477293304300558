"""The flow model: codec ids to mel at 50 Hz in a given voice, whole utterances or chunk by chunk with exact caches.

Model specification, sections 4.3 to 4.6. Codec ids are [B, F] int64 at 25 Hz, mel is [B, mel, M] with two frames per
id.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, pad

from antiphon.config.checkpoint import FlowConfig
from antiphon.core.errors import MediaError
from antiphon.models.code2wav.cfm import ConditionalFlow, Schedule, SolverCache
from antiphon.models.code2wav.conformer import EncoderCache, UpsampleEncoder

SILENCE_ID = 4218  # codec id of 40 ms of silence
KEPT_TAIL_FRAMES = 100  # a cache grows to the prompt's length plus this


@dataclass(frozen=True)
class VoicePrompt:
    """A reference voice as the flow takes it. Invariant: two mel frames for each codec id."""

    codes: Tensor  # [1, Np] int64
    xvector: Tensor  # [1, 192] speaker vector
    mel: Tensor  # [1, mel, 2 · Np] log-mel, 50 Hz

    def __post_init__(self) -> None:
        if self.mel.shape[2] != 2 * self.codes.shape[1]:
            raise MediaError(
                f"voice: {self.mel.shape[2]} mel frames for {self.codes.shape[1]} codec ids; there must be two for each"
            )


@dataclass(frozen=True)
class FlowState:
    """What the flow remembers of one stream. Never changed: each chunk returns a new one."""

    encoder: EncoderCache
    solver: SolverCache
    num_prompt_frames: int

    def trimmed(self) -> "FlowState":
        """Apply the reference's rule: beyond P + 100 entries (P: prompt frames) a cache keeps the first P and last 100.

        What that means differs per cache, because they are stored in different orders; see their `trimmed`.
        """
        head = self.num_prompt_frames
        if len(self.solver) <= head + KEPT_TAIL_FRAMES:
            return self
        return FlowState(
            self.encoder.trimmed(head, KEPT_TAIL_FRAMES), self.solver.trimmed(head, KEPT_TAIL_FRAMES), head
        )

    def clone(self) -> "FlowState":
        return FlowState(self.encoder.clone(), self.solver.clone(), self.num_prompt_frames)


class Flow(nn.Module):
    """Codec ids to mel. Sub-module names are those of `flow.pt`."""

    def __init__(self, config: FlowConfig) -> None:
        super().__init__()
        self.config = config
        self.input_embedding = nn.Embedding(config.num_codec_ids, config.embedding_size)
        self.spk_embed_affine_layer = nn.Linear(config.speaker_size, config.num_mel_bins)
        self.encoder = UpsampleEncoder(config.encoder)
        self.encoder_proj = nn.Linear(config.encoder.output_size, config.num_mel_bins)
        self.decoder = ConditionalFlow(config.dit, config.cfg_rate)

    def embed(self, codes: Tensor) -> Tensor:
        """Embed codec ids [B, F]; ids below 0 count as 0. [B, F, embedding_size]."""
        out: Tensor = self.input_embedding(codes.clamp(min=0))
        return out

    def speaker(self, xvector: Tensor) -> Tensor:
        """Speaker vector [B, 192] → the flow's speaker channels [B, mel]."""
        out: Tensor = self.spk_embed_affine_layer(normalize(xvector.to(self.encoder_proj.weight.dtype), dim=1))
        return out

    def synthesise(self, codes: Tensor, voice: VoicePrompt, noise: Tensor, num_steps: int) -> Tensor:
        """Mel of a whole utterance: codes [1, F] → [1, mel, 2F]."""
        both = self.embed(torch.cat((voice.codes, codes), dim=1))
        hidden, _ = self.encoder(both, self.encoder.empty_cache(), is_last=True)
        mu = self.encoder_proj(hidden).transpose(1, 2)
        num_prompt_frames = voice.mel.shape[2]
        cond = pad(voice.mel.to(mu.dtype), (0, mu.shape[2] - num_prompt_frames))
        mel = self.decoder.solve(mu, self.speaker(voice.xvector), cond, noise, num_steps)
        return mel[:, :, num_prompt_frames:]

    def start(self, voice: VoicePrompt, noise: Tensor, num_steps: int) -> FlowState:
        """Run the voice prompt through the model: the state that every turn in this voice starts from."""
        ahead = voice.codes.new_full((1, self.config.encoder.lookahead), SILENCE_ID)
        embedded = self.embed(torch.cat((voice.codes, ahead), dim=1))
        hidden, encoder = self.encoder(embedded, self.encoder.empty_cache(), is_last=False)
        mu = self.encoder_proj(hidden).transpose(1, 2)
        _, solver = self.decoder.solve_chunk(
            mu, self.speaker(voice.xvector), voice.mel.to(mu.dtype), noise, self.decoder.empty_cache(num_steps)
        )
        return FlowState(encoder, solver, mu.shape[2])

    def chunk(
        self,
        codes: Tensor,
        speaker: Tensor,
        state: FlowState,
        noise: Tensor,
        *,
        is_last: bool,
        schedule: Schedule | None = None,
    ) -> tuple[Tensor, FlowState]:
        """Mel of the next chunk.

        Args:
            codes: [1, F] int64; unless *is_last* the final 3 are look-ahead, to be given again with the next chunk.
            speaker: from `speaker`, [1, mel].
            state: of the stream; not changed.
            noise: the noise table, [1, mel, n].
            is_last: all codes are voiced.
            schedule: of the solver, for the number of steps the state was made with; None: computed anew.

        Returns:
            Mel [1, mel, 2F] (2F − 6 unless *is_last*) and the new, trimmed state.
        """
        hidden, encoder = self.encoder(self.embed(codes), state.encoder, is_last=is_last)
        mu = self.encoder_proj(hidden).transpose(1, 2)
        mel, solver = self.decoder.solve_chunk(mu, speaker, torch.zeros_like(mu), noise, state.solver, schedule)
        return mel, FlowState(encoder, solver, state.num_prompt_frames).trimmed()
