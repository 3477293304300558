"""Codec ids to samples without an engine: one voice, one utterance or one stream at a time."""

from collections.abc import Sequence

import torch
from torch import Tensor

from antiphon.audio.voice import VoiceFeatures
from antiphon.core.errors import CapacityError
from antiphon.engine.code_buffer import CodeBuffer
from antiphon.models.code2wav.cfm import make_noise_table
from antiphon.models.code2wav.code2wav import DEFAULT_STEPS, Code2Wav, VoiceTemplate
from antiphon.models.code2wav.flow import VoicePrompt
from antiphon.models.code2wav.hift_source import SeededSourceNoise, SourceNoise

OFFLINE_STEPS = 10  # whatever streams use: the reference's offline call has them fixed


def voice_prompt(voice: VoiceFeatures, device: torch.device) -> VoicePrompt:
    """Put a voice's features onto the device."""
    return VoicePrompt(
        codes=torch.from_numpy(voice.codes)[None].to(device),
        xvector=torch.from_numpy(voice.xvector)[None].to(device),
        mel=torch.from_numpy(voice.mel).T[None].contiguous().to(device),
    )


class Vocoder:
    """Code2Wav with one voice.

    Args:
        code2wav: the loaded stage.
        voice: features of the reference recording.
        num_steps: ODE steps of streams.
        noise: start noise of the flow, [1, mel, n]; None: the table of our own seed.
        source_noise: noise of the excitation; None: seeded with 0.
    """

    def __init__(
        self,
        code2wav: Code2Wav,
        voice: VoiceFeatures,
        *,
        num_steps: int = DEFAULT_STEPS,
        noise: Tensor | None = None,
        source_noise: SourceNoise | None = None,
    ) -> None:
        self.code2wav = code2wav
        self.num_steps = num_steps
        self.source_noise = SeededSourceNoise(0) if source_noise is None else source_noise
        self.device = code2wav.hift.conv_pre.weight.device
        table = make_noise_table(code2wav.flow.config.num_mel_bins) if noise is None else noise
        self.noise = table.to(self.device)
        self.voice = voice_prompt(voice, self.device)
        self._template: VoiceTemplate | None = None

    @property
    def template(self) -> VoiceTemplate:
        """The state that turns in this voice start from, computed when it is first needed."""
        if self._template is None:
            with torch.inference_mode():
                self._template = self.code2wav.template(self.voice, self.noise, self.num_steps)
        return self._template

    @torch.inference_mode()
    def speak(self, codes: Sequence[int]) -> Tensor:
        """Samples of a whole utterance, [960 · len(codes)] float32 at 24 kHz. No ids, no samples."""
        if not codes:
            return torch.zeros(0, device=self.device)
        return self.code2wav.synthesise(self.ids(codes), self.voice, self.noise, self.source_noise, OFFLINE_STEPS)[0]

    def stream(self) -> "VocoderStream":
        """Start a stream in this voice."""
        return VocoderStream(self)

    def ids(self, codes: Sequence[int]) -> Tensor:
        """Codec ids as a tensor [1, F] int64. Raises CapacityError for ids without an embedding, such as the end id."""
        num_ids = self.code2wav.flow.config.num_codec_ids
        wrong = [code for code in codes if not 0 <= code < num_ids]
        if wrong:
            raise CapacityError(
                f"code2wav: codec id {wrong[0]} is not one of 0 … {num_ids - 1}; strip the end id first"
            )
        return torch.tensor([list(codes)], dtype=torch.int64, device=self.device)


class VocoderStream:
    """Speech of one session in one voice, unit by unit. Holds state of its own, nothing of the voice's."""

    def __init__(self, vocoder: Vocoder) -> None:
        self.vocoder = vocoder
        self.buffer = CodeBuffer()
        self._state = vocoder.template.open()

    def reset(self) -> None:
        """Forget the turn: waiting ids, caches and held samples."""
        self.buffer.reset()
        self._state = self.vocoder.template.open()

    @torch.inference_mode()
    def push(self, codes: Sequence[int], *, first: bool, end_of_turn: bool) -> Tensor:
        """Samples that a unit's codec ids make audible now, [N] float32 at 24 kHz, N may be 0.

        After *end_of_turn* the stream is at the start of a new turn; what was held back is in the samples returned.
        See `CodeBuffer.push` for the arguments.
        """
        vocoder = self.vocoder
        pieces = []
        for chunk in self.buffer.push(codes, first=first, end_of_turn=end_of_turn):
            samples, self._state = vocoder.code2wav.chunk(
                vocoder.ids(chunk.codes),
                vocoder.template,
                self._state,
                vocoder.noise,
                vocoder.source_noise,
                is_last=chunk.is_last,
            )
            pieces.append(samples[0])
        if end_of_turn:
            self.reset()
        return torch.cat(pieces) if pieces else torch.zeros(0, device=vocoder.device)
