"""Code2Wav as a whole: codec ids to samples at 24 kHz in a reference voice, offline or as a stream.

Model specification, section 4. One codec id is 40 ms: two mel frames, 960 samples. States are data apart from the
model, so one model serves any number of streams.
"""

from dataclasses import dataclass

from torch import Tensor, nn

from antiphon.config.checkpoint import FlowConfig
from antiphon.models.code2wav.cfm import Schedule
from antiphon.models.code2wav.config import HiFTConfig
from antiphon.models.code2wav.flow import Flow, FlowState, VoicePrompt
from antiphon.models.code2wav.hift import HiFT, num_samples
from antiphon.models.code2wav.hift_source import SourceNoise
from antiphon.models.code2wav.hift_stream import HiFTState, empty_state, vocode_chunk

DEFAULT_STEPS = 10  # of the flow's ODE


@dataclass(frozen=True)
class StreamState:
    """Everything one stream remembers between chunks. Never changed: each chunk returns a new one."""

    flow: FlowState
    hift: HiFTState


@dataclass(frozen=True)
class VoiceTemplate:
    """A voice made ready for streams: speaker channels, the state every turn starts from, and the solver's steps."""

    speaker: Tensor  # [1, mel]
    flow: FlowState
    hift: HiFTState
    schedule: Schedule

    def open(self) -> StreamState:
        """A stream of its own at the start of a turn; shares no storage with the template."""
        return StreamState(self.flow.clone(), self.hift.clone())


class Code2Wav(nn.Module):
    """`flow` has the names of `flow.pt`, `hift` those of `hift.pt` with weight norm folded."""

    def __init__(self, flow: FlowConfig, hift: HiFTConfig) -> None:
        super().__init__()
        self.flow = Flow(flow)
        self.hift = HiFT(hift)

    def synthesise(
        self,
        codes: Tensor,
        voice: VoicePrompt,
        noise: Tensor,
        source_noise: SourceNoise,
        num_steps: int = DEFAULT_STEPS,
    ) -> Tensor:
        """Samples of a whole utterance: codes [1, F] int64 → [1, 960 · F] float32.

        *noise* is the flow's table [1, mel, n].
        """
        mel = self.flow.synthesise(codes, voice, noise, num_steps)
        drawn = source_noise.draw(num_samples(mel), self.hift.config.num_harmonics, mel.device)
        speech: Tensor = self.hift(mel, drawn)[0]
        return speech

    def template(self, voice: VoicePrompt, noise: Tensor, num_steps: int = DEFAULT_STEPS) -> VoiceTemplate:
        """Make a voice ready for streams of *num_steps* ODE steps a chunk."""
        return VoiceTemplate(
            speaker=self.flow.speaker(voice.xvector),
            flow=self.flow.start(voice, noise, num_steps),
            hift=empty_state(self.hift),
            schedule=self.flow.decoder.schedule(num_steps),
        )

    def chunk(
        self,
        codes: Tensor,
        template: VoiceTemplate,
        state: StreamState,
        noise: Tensor,
        source_noise: SourceNoise,
        *,
        is_last: bool,
    ) -> tuple[Tensor, StreamState]:
        """Samples of the next chunk of a stream.

        Args:
            codes: [1, F] int64. Unless *is_last* the final 3 are look-ahead, to be given again with the next chunk.
            template: the voice that the stream was opened with.
            state: of the stream; not changed.
            noise: the flow's table, [1, mel, n].
            source_noise: of the vocoder's excitation.
            is_last: the turn ends here; everything held back is voiced.

        Returns:
            Samples [1, N] float32 at 24 kHz and the new state.
        """
        mel, flow = self.flow.chunk(
            codes, template.speaker, state.flow, noise, is_last=is_last, schedule=template.schedule
        )
        speech, hift = vocode_chunk(self.hift, mel, state.hift, source_noise, is_last=is_last)
        return speech, StreamState(flow, hift)
