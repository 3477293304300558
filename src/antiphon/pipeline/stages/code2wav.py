"""Code2Wav as a stage: opens a stream for each spoken request and brings its samples out.

Duplex sessions are the business of `Code2WavSessions`, over the same engine.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic

import torch

from antiphon.audio.voice import VoiceFeatures
from antiphon.core.errors import EngineError
from antiphon.engine.code2wav_streams import SpeechJob, SpeechOutput
from antiphon.engine.code_buffer import LOOKAHEAD_IDS
from antiphon.pipeline.device_loop import CODE2WAV
from antiphon.pipeline.eager.vocoder import voice_prompt
from antiphon.pipeline.messages import (
    CodecChunk,
    RequestFailed,
    SessionVoice,
    SpeechSamples,
    StageOutput,
    StagePiece,
    StageRequest,
    UnitCodes,
    VoiceRequest,
)
from antiphon.pipeline.speech import SAMPLES_PER_CODE
from antiphon.pipeline.stage import FIRST_CHUNK, NEXT_CHUNK, Report, Urgency
from antiphon.pipeline.stages.code2wav_sessions import Code2WavSessions
from antiphon.pipeline.stages.vocoder_engine import VocoderEngine
from antiphon.pipeline.voice_book import PreparedVoice


@dataclass
class _Voicing:
    """One request's speech on its way."""

    request: VoiceRequest
    num_to_skip: int = LOOKAHEAD_IDS * SAMPLES_PER_CODE  # the silence that primes the vocoder is no part of the answer
    num_pushed: int = 0
    num_voiced: int = 0  # chunks


class Code2WavStage:
    """A request's stream is opened when the request comes, and takes a slot when its first codes do.

    Args:
        engine: voices the chunks.
        device: where voices are put.
        default_voice: made ready in the warm-up; None: every voice is made ready by its first request.
        clock: seconds.
    """

    name = CODE2WAV

    def __init__(
        self,
        engine: VocoderEngine,
        *,
        device: torch.device,
        default_voice: PreparedVoice | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._engine = engine
        self._device = device
        self._default_voice = default_voice
        self._voicings: dict[str, _Voicing] = {}
        self._sessions = Code2WavSessions(engine, self._make_known, clock=clock)
        self._outputs: list[StageOutput] = []

    @property
    def is_busy(self) -> bool:
        if self._outputs or self._sessions.outputs or self._sessions.is_busy:
            return True
        if any(voicing.num_pushed > voicing.num_voiced for voicing in self._voicings.values()):
            return True
        return self._engine.snapshot()["launches_under_way"] > 0

    def warm_up(self, report: Report) -> None:
        self._engine.warm_up(report)
        if self._default_voice is not None:
            self._add_voice(self._default_voice.key, self._default_voice.features)
            report("voice: default")

    def admit(self, request: StageRequest) -> None:
        if isinstance(request, SessionVoice):
            self._sessions.start(request)
            return
        assert isinstance(request, VoiceRequest)
        self._make_known(request)
        self._engine.admit(
            SpeechJob(request.request_id, request.epoch, request.voice_key, request.seed, request.deadline_s)
        )
        self._voicings[request.request_id] = _Voicing(request)

    def extend(self, piece: StagePiece) -> None:
        if isinstance(piece, UnitCodes):
            self._sessions.extend(piece)
            return
        assert isinstance(piece, CodecChunk)
        voicing = self._voicings.get(piece.request_id)
        if voicing is None or voicing.request.epoch != piece.epoch:
            return
        if piece.codes:
            self._engine.push(piece.request_id, piece.codes, is_last=piece.is_last)
            voicing.num_pushed += 1
        if piece.is_last:
            self._engine.close_input(piece.request_id)

    def close_input(self, request_id: str) -> None:
        """The last chunk says so itself."""

    def abort(self, request_id: str) -> None:
        if self._sessions.abort(request_id):
            return
        if self._voicings.pop(request_id, None) is not None:
            self._engine.abort(request_id)

    def urgency(self) -> Urgency:
        is_first = self._sessions.waits_for_first or any(
            voicing.num_pushed and not voicing.num_voiced for voicing in self._voicings.values()
        )
        return (FIRST_CHUNK if is_first else NEXT_CHUNK, 0.0)

    def launch(self) -> bool:
        return self._engine.launch()

    def collect(self) -> Sequence[StageOutput]:
        for output in self._engine.collect():
            if output.stream_id in self._sessions:
                self._sessions.take(output)
                continue
            voicing = self._voicings.get(output.stream_id)
            if voicing is not None and voicing.request.epoch == output.epoch:
                self._take(voicing, output)
        outputs, self._outputs, self._sessions.outputs = [*self._outputs, *self._sessions.outputs], [], []
        return outputs

    def snapshot(self) -> dict[str, float]:
        return {**self._engine.snapshot(), **self._sessions.snapshot(), "requests": len(self._voicings)}

    def _make_known(self, request: VoiceRequest) -> None:
        features = VoiceFeatures(request.voice_codes, request.voice_xvector, request.voice_mel)
        self._add_voice(request.voice_key, features)

    def _add_voice(self, key: str, features: VoiceFeatures) -> None:
        # Known ones are told too: the engine counts the hit and keeps the voice for longer.
        self._engine.add_voice(key, voice_prompt(features, self._device))

    def _take(self, voicing: _Voicing, output: SpeechOutput) -> None:
        request = voicing.request
        if output.finish_reason == "error":
            self._outputs.append(
                RequestFailed(
                    request_id=request.request_id,
                    epoch=request.epoch,
                    stage=self.name,
                    code=EngineError.code,
                    message=output.error or "code2wav gave the request up",
                )
            )
            del self._voicings[request.request_id]
            return
        voicing.num_voiced += 1
        skipped = min(voicing.num_to_skip, len(output.samples))
        voicing.num_to_skip -= skipped
        is_last = output.finish_reason is not None
        if is_last or len(output.samples) > skipped:
            samples = output.samples[skipped:]
            self._outputs.append(
                SpeechSamples(request_id=request.request_id, epoch=request.epoch, samples=samples, is_last=is_last)
            )
        if is_last:
            del self._voicings[request.request_id]
