"""The duplex sessions of the Code2Wav stage: each turn is a stream, each unit some of its chunks.

Specification: model, section 4.6. The slow twin is `eager.duplex_speech.UnitSpeaker` over a `VocoderStream`.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from antiphon.core.errors import EngineError
from antiphon.engine.code2wav_streams import SpeechJob, SpeechOutput
from antiphon.pipeline.messages import RequestFailed, SessionVoice, StageOutput, UnitCodes, UnitVoiced
from antiphon.pipeline.speech import SPEECH_RATE_HZ
from antiphon.pipeline.stages.vocoder_engine import VocoderEngine

CODE2WAV = "code2wav"


@dataclass
class _Voicing:
    """A unit whose chunks are under way, in the stream of its turn (None: it has no chunks)."""

    unit: UnitCodes
    stream_id: str | None
    num_left: int
    began_s: float
    pieces: list[NDArray[np.float32]] = field(default_factory=list)


@dataclass
class _Speaker:
    """A session's voice.

    Attributes:
        stream_id: of the turn under way; None: none has begun since the last one ended.
        streams: of all turns that still sound.
        awaits_first: the turn has chunks, and none is voiced yet.
    """

    request: SessionVoice
    stream_id: str | None = None
    streams: set[str] = field(default_factory=set)
    num_turns: int = 0
    units: deque[_Voicing] = field(default_factory=deque)
    awaits_first: bool = False


class Code2WavSessions:
    """All sessions that speak.

    Args:
        engine: voices the chunks.
        add_voice: makes the voice of a session known to the engine.
        clock: seconds.
    """

    def __init__(
        self,
        engine: VocoderEngine,
        add_voice: Callable[[SessionVoice], None],
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._engine, self._add_voice, self._clock = engine, add_voice, clock
        self._speakers: dict[str, _Speaker] = {}
        self._of_stream: dict[str, _Speaker] = {}
        self.outputs: list[StageOutput] = []

    def __contains__(self, stream_id: str) -> bool:
        """Whether a stream of the engine is a session's."""
        return stream_id in self._of_stream

    @property
    def is_busy(self) -> bool:
        return any(speaker.units for speaker in self._speakers.values())

    @property
    def waits_for_first(self) -> bool:
        """Whether somebody's turn has chunks, and none is voiced yet."""
        return any(speaker.awaits_first for speaker in self._speakers.values())

    def start(self, request: SessionVoice) -> None:
        """Raises AntiphonError: the voice cannot be used."""
        self._add_voice(request)
        self._speakers[request.request_id] = _Speaker(request)

    def extend(self, unit: UnitCodes) -> None:
        """Voice *unit* after those before it; one of a session that has ended is ignored."""
        speaker = self._speakers.get(unit.request_id)
        if speaker is None:
            return
        if unit.resets_voice and unit.ends_turn:
            self._drop(speaker)
            return
        if unit.chunks and speaker.stream_id is None:
            self._open(speaker, unit.deadline_s)
        if not unit.resets_voice:
            speaker.units.append(_Voicing(unit, speaker.stream_id, len(unit.chunks), self._clock()))
        for index, codes in enumerate(unit.chunks):
            assert speaker.stream_id is not None
            self._engine.push(speaker.stream_id, codes, is_last=unit.ends_turn and index == len(unit.chunks) - 1)
        if (unit.ends_turn or unit.resets_voice) and speaker.stream_id is not None:
            self._engine.close_input(speaker.stream_id)
            speaker.stream_id = None
        self._release(speaker)

    def abort(self, request_id: str) -> bool:
        """End a session; False if it is none of ours."""
        speaker = self._speakers.pop(request_id, None)
        if speaker is None:
            return False
        self._drop(speaker)
        return True

    def take(self, output: SpeechOutput) -> None:
        """News of a turn's stream."""
        speaker = self._of_stream[output.stream_id]
        if output.finish_reason == "error":
            self._fail(speaker, output.error or "code2wav gave the session up")
            return
        voicing = next((item for item in speaker.units if item.stream_id == output.stream_id and item.num_left), None)
        # The end of a stream may come by itself, behind its last samples.
        if voicing is not None and (len(output.samples) or output.finish_reason is None):
            voicing.pieces.append(output.samples)
            voicing.num_left -= 1
            speaker.awaits_first = False
        if output.finish_reason is not None:
            self._forget(speaker, output.stream_id)
        self._release(speaker)

    def snapshot(self) -> dict[str, float]:
        return {"sessions": len(self._speakers), "session_turns": len(self._of_stream)}

    def _open(self, speaker: _Speaker, deadline_s: float) -> None:
        """Begin a turn whose first samples are due at *deadline_s*."""
        request = speaker.request
        speaker.stream_id = f"{request.request_id}/{speaker.num_turns}"
        speaker.num_turns += 1
        self._add_voice(request)  # it may have left since the last turn
        self._engine.admit(SpeechJob(speaker.stream_id, request.epoch, request.voice_key, request.seed, deadline_s))
        speaker.streams.add(speaker.stream_id)
        self._of_stream[speaker.stream_id] = speaker
        speaker.awaits_first = True

    def _drop(self, speaker: _Speaker) -> None:
        """Nothing that was to be voiced is wanted any more."""
        speaker.units.clear()
        speaker.stream_id, speaker.awaits_first = None, False
        for stream_id in sorted(speaker.streams):
            self._engine.abort(stream_id)
            self._forget(speaker, stream_id)

    def _forget(self, speaker: _Speaker, stream_id: str) -> None:
        speaker.streams.discard(stream_id)
        del self._of_stream[stream_id]

    def _release(self, speaker: _Speaker) -> None:
        """Report the units that are complete, in order."""
        while speaker.units and not speaker.units[0].num_left:
            voicing = speaker.units.popleft()
            unit = voicing.unit
            samples = np.concatenate([np.zeros(0, np.float32), *voicing.pieces])
            if not unit.ends_turn:
                # What the vocoder holds back of a turn's first second stands as silence in front of it.
                samples = np.pad(samples, (max(0, SPEECH_RATE_HZ - len(samples)), 0))
            self.outputs.append(
                UnitVoiced(
                    request_id=unit.request_id,
                    epoch=unit.epoch,
                    number=unit.number,
                    samples=samples,
                    code2wav_s=self._clock() - voicing.began_s,
                )
            )

    def _fail(self, speaker: _Speaker, message: str) -> None:
        request = speaker.request
        self.outputs.append(
            RequestFailed(
                request_id=request.request_id,
                epoch=request.epoch,
                stage=CODE2WAV,
                code=EngineError.code,
                message=message,
            )
        )
        self.abort(request.request_id)
