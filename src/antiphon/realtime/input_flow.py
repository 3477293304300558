"""From appends to units: decoding, speech, overlap, and what is pending."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon.core.errors import AntiphonError
from antiphon.realtime.audio_input import InputResampler, append_format, decode_samples
from antiphon.realtime.input_buffer import SAMPLE_BYTES, Second
from antiphon.realtime.input_turn import InputTurn
from antiphon.realtime.limits import INPUT_RATE_HZ
from antiphon.realtime.output_flow import OutputFlow
from antiphon.realtime.overlap import Action, Overlap, Verdict, decide, is_explicit
from antiphon.realtime.response import Ending
from antiphon.realtime.session_state import SessionState
from antiphon.realtime.settings import OverlapPolicy
from antiphon.realtime.speech_verdict import is_speech
from antiphon.realtime.turn import TurnEvent
from antiphon.realtime.vad import Detector, VadEdge
from antiphon.wire.realtime import server_events as events
from antiphon.wire.realtime.client_events import InputAudioAppend
from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.video_frames import parse_video_frames


@dataclass(frozen=True)
class Heard:
    """Whether an append is speech, and what a server VAD found in it (None: none runs)."""

    is_speech: bool
    edges: tuple[VadEdge, ...] | None = None

    @property
    def vad_started(self) -> bool | None:
        return None if self.edges is None else any(edge.is_start for edge in self.edges)

    @property
    def has_stopped(self) -> bool:
        return bool(self.edges) and not self.edges[-1].is_start if self.edges else False


class InputFlow:
    """Owns the turn that is being taken in, and the turns that wait for a response to be over or asked for."""

    def __init__(self, state: SessionState, output: OutputFlow, on_pause: Callable[[], None]) -> None:
        self._state = state
        self._output = output
        self._on_pause = on_pause  # a server VAD heard the user stop, and an open microphone streams on
        self._resampler = InputResampler()
        self._detector: Detector | None = None
        self._is_detector_broken = False
        self._is_held_speech = False  # what the resampler withholds belongs to an append that was speech
        self.turn = InputTurn()
        self.retained: list[Second] = []  # committed in turn mode, waits for response.create

    @property
    def num_pending_bytes(self) -> int:
        state = self._state
        return state.buffer.num_bytes + state.chain.num_bytes + sum(second.samples.nbytes for second in self.retained)

    # --- append

    def append(self, event: InputAudioAppend) -> bool:
        """Take an append in. True: a server VAD heard the user stop, and in turn mode that commits."""
        state = self._state
        frames = parse_video_frames(event.video_frames, event.max_slice_nums)
        if event.audio is None:
            if event.video_frames is not None:
                raise RealtimeError("invalid_input_modality", "this model takes frames with sound only", param="audio")
            raise RealtimeError("bad_event", "an append needs audio", param="audio")
        form = append_format(state.settings.input_format, event.format, event.sample_rate_hz)
        raw = decode_samples(event.audio, form.encoding)
        grows = round(len(raw) * INPUT_RATE_HZ / form.input_rate_hz) * SAMPLE_BYTES + sum(map(len, frames))
        limit = state.limits.max_pending_input_bytes_per_session
        if self.num_pending_bytes + grows > limit:
            raise RealtimeError(
                "input_backpressure", f"more than {limit} bytes of input wait to be processed; this append is dropped"
            )
        samples = self._resampler.push(raw, form)
        self.turn.input_s += len(raw) / form.input_rate_hz
        if not len(raw) and not frames:
            return False
        state.last_append_s = state.now_s
        return self._take(event, raw, samples, frames)

    def append_clip(self, audio: str, form: object, rate_hz: object, transcript: str | None) -> None:
        """Sound of an item: taken in like an append that is speech if it is loud."""
        self.append(InputAudioAppend(audio=audio, format=form, sample_rate_hz=rate_hz, transcript=transcript))

    def _take(
        self,
        event: InputAudioAppend,
        raw: NDArray[np.float32],
        samples: NDArray[np.float32],
        frames: tuple[bytes, ...],
    ) -> bool:
        """*raw* is the append's own sound, *samples* what the resampler gives for it so far: perhaps nothing yet."""
        state = self._state
        heard = self._listen(event, raw, samples)
        start = state.buffer.position
        if state.is_in_progress:
            if heard.is_speech:
                self.turn.overlap_samples += len(samples)
            verdict = self._overlap(event, heard, has_frames=bool(frames))
            if verdict is not None and not verdict.keeps_audio:
                self._note_dropped(heard, verdict)
                return False
        else:
            self.turn.overlap_samples = 0
        vad = state.settings.turn_detection
        is_turn = not state.settings.auto_response
        force = event.force_listen or (is_turn and vad is not None and heard.is_speech and not heard.has_stopped)
        state.buffer.push(samples, frames=frames, force_listen=force, is_speech=heard.is_speech)
        state.has_accepted_audio = True
        self.turn.has_audio = True
        self.turn.has_speech |= heard.is_speech
        self._is_held_speech = heard.is_speech
        if event.transcript:
            self.turn.hints.append(event.transcript)
        self._tell_speech(heard, start)
        if state.settings.auto_response:
            self.submit_full()
        return is_turn and heard.has_stopped

    def _listen(self, event: InputAudioAppend, raw: NDArray[np.float32], samples: NDArray[np.float32]) -> Heard:
        detector = self._present_detector()
        if detector is None:
            return Heard(is_speech(event, raw, self._state.settings.overlap_silence_rms))
        was_speaking = detector.is_speaking
        edges = tuple(detector.push(samples))
        on_speech_end = self._state.around.on_speech_end
        if on_speech_end is not None:
            for edge in edges:
                if not edge.is_start:
                    on_speech_end(edge.delay_s)
        return Heard(was_speaking or detector.is_speaking or bool(edges), edges)

    def _present_detector(self) -> Detector | None:
        state = self._state
        vad = state.settings.turn_detection
        if vad is None or self._is_detector_broken:
            self._detector = None
            return None
        if self._detector is None or self._detector.settings != vad:
            try:
                self._detector = self.make_detector()
            except RealtimeError:
                self._is_detector_broken = True
                raise
        return self._detector

    def make_detector(self) -> Detector:
        """A detector for the session's settings. Raises RealtimeError `server_vad_unavailable`."""
        state = self._state
        vad = state.settings.turn_detection
        assert vad is not None
        source = state.around.scorer_source
        if source is None:
            raise RealtimeError("server_vad_unavailable", "this server has no voice activity detector configured")
        try:
            scorer = source()
        except AntiphonError as error:
            raise RealtimeError("server_vad_unavailable", str(error)) from error
        return Detector(scorer, vad, state.buffer.position)

    def _overlap(self, event: InputAudioAppend, heard: Heard, *, has_frames: bool) -> Verdict | None:
        """Decide, tell, and act. None: nothing had to be decided."""
        state = self._state
        settings = state.settings
        keeps_all = settings.auto_response or state.rules.keeps_input
        overlap = Overlap(
            is_auto=keeps_all,
            policy=settings.overlap_policy,
            is_speech=heard.is_speech,
            speech_ms=self.turn.overlap_samples * 1000 / INPUT_RATE_HZ,
            short_ack_ms=settings.overlap_short_ack_ms,
            asked_action=event.overlap_action,
            force_barge_in=event.force_barge_in,
            force_listen=event.force_listen,
            transcript=event.transcript,
            vad_started=heard.vad_started,
            has_frames=has_frames,
        )
        is_policy = settings.overlap_policy is OverlapPolicy.BARGE_IN and heard.is_speech
        if keeps_all and not is_policy and not is_explicit(overlap):
            return None
        verdict = decide(overlap)
        state.emit(
            events.OverlapDecided(
                session_id=state.id,
                epoch=state.epoch,
                policy=settings.overlap_policy.value,
                action=verdict.action.value,
                reason=verdict.reason,
                metadata={
                    "overlap_speech_ms": overlap.speech_ms,
                    "buffer_audio": verdict.keeps_audio,
                    "defer_runtime_append": verdict.is_deferred,
                    "force_listen": event.force_listen,
                },
            )
        )
        if verdict.action is Action.BARGE_IN:
            is_detected = verdict.reason == "server_vad_speech_started"
            self._output.interrupt("turn_detected" if is_detected else "barge_in")
            self.turn.overlap_samples = 0
        return verdict

    def _note_dropped(self, heard: Heard, verdict: Verdict) -> None:
        """The samples are not kept, but a commit must know that something, or somebody, was there."""
        self.turn.has_audio = True
        if verdict.reason == "silence_or_noise":
            self._output.beat("silence_or_noise")
        if heard.is_speech:
            self._tell_speech(heard, self._state.buffer.position)

    def _tell_speech(self, heard: Heard, start: int) -> None:
        """speech_started once for each item, or once for each utterance that a server VAD finds."""
        if heard.edges is not None:
            for edge in heard.edges:
                if edge.is_start:
                    self.tell_started(edge.position)
                else:
                    self.tell_stopped(edge.position)
                    self._on_pause()
            return
        if heard.is_speech and self.turn.speech_start is None:
            self.turn.speech_start = start
        if heard.is_speech and not self.turn.was_started and not self._speaks_over():
            self.tell_started(self.turn.speech_start if self.turn.speech_start is not None else start)

    def _speaks_over(self) -> bool:
        """Whether the word that the user speaks has to wait: some clients stop their playback on it, though nothing
        was cut off."""
        state = self._state
        return state.rules.closes_items and (state.response is not None or state.ledger.is_playing(state.now_s))

    def tell_started(self, position: int) -> None:
        state = self._state
        if self.turn.item_id is None:
            self.turn.item_id = state.new_item_id()
        self.turn.is_started = self.turn.was_started = True
        state.fire_turn(TurnEvent.USER_STARTED)
        state.emit(events.SpeechStarted(audio_start_ms=_ms(position), item_id=self.turn.item_id))

    def tell_stopped(self, position: int | None = None) -> None:
        """Only where a start was told."""
        if not self.turn.is_started or self.turn.item_id is None:
            return
        self.turn.is_started = False
        at = self._state.buffer.position if position is None else position
        self._state.emit(events.SpeechStopped(audio_end_ms=_ms(at), item_id=self.turn.item_id))

    def tell_late(self) -> None:
        """The item ends, and that its speech began was not told yet."""
        start = self.turn.speech_start
        if self._state.rules.closes_items and not self.turn.was_started and start is not None:
            self.tell_started(start)

    # --- units

    def submit_full(self) -> None:
        """Queue every full second that waits."""
        while (second := self._state.buffer.take()) is not None:
            self.queue(second)

    def queue(self, second: Second, *, is_final: bool = False, force_listen: bool = False) -> None:
        state = self._state
        self.turn.num_units += 1
        response = state.response
        is_bound = response is not None and not state.settings.auto_response
        state.chain.push(
            second,
            epoch=state.epoch,
            is_final=is_final,
            force_listen=force_listen or self.turn.num_units <= state.settings.force_listen_count,
            response_id=response.id if is_bound and response is not None else None,
        )
        state.submit_next()

    def drain(self, *, pad: bool) -> list[Second]:
        """All that waits, as seconds; what is left of one is padded or dropped."""
        buffer = self._state.buffer
        self._push_held()
        seconds = []
        while (second := buffer.take(pad=pad)) is not None:
            seconds.append(second)
        buffer.clear()
        return seconds

    def flush_resampler(self) -> None:
        """The turn's stream ends, its rest joins the buffer."""
        self._push_held()

    def _push_held(self) -> None:
        held = self._resampler.finish()
        self._state.buffer.push(held, frames=(), force_listen=False, is_speech=self._is_held_speech)
        self._is_held_speech = False

    # --- clear

    def start_turn(self) -> None:
        """Behind a commit: the next append begins a new item."""
        self.turn = InputTurn()
        self.reset_detector()

    def begin_item(self) -> None:
        """The next item of a stream that goes on."""
        self.turn = InputTurn()

    @property
    def has_detector(self) -> bool:
        return self._state.settings.turn_detection is not None and not self._is_detector_broken

    def reset_detector(self) -> None:
        if self._detector is not None:
            self._detector.reset(self._state.buffer.position)

    def clear(self, *, fails_response: bool) -> None:
        """Drop all input that the engine does not hold; a response that waits for it fails, unless it ends anyway."""
        state = self._state
        self._resampler.finish()
        self._is_held_speech = False
        state.buffer.clear()
        if state.rules.keeps_input:
            dropped = state.chain.drop_uncommitted()
        else:
            self.retained.clear()
            dropped = state.chain.drop_waiting()
        response = state.response
        if fails_response and response is not None and not response.has_spoken:
            bound = any(link.response_id == response.id and not link.unit.is_silence for link in dropped)
            if bound:
                self._output.finish(Ending("failed", "input_cleared", "commit_aborted", "its input was cleared"))
        self.start_turn()
        state.fire_turn(TurnEvent.INPUT_CLEARED)


def _ms(position: int) -> int:
    return position * 1000 // INPUT_RATE_HZ
