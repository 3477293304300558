"""The pipeline behind the Realtime sessions: their commands to units, the pipeline's events to their outputs."""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from antiphon.audio.decode import SAMPLE_RATE_HZ, load_audio
from antiphon.audio.image import load_image
from antiphon.core.errors import AntiphonError, ContextLengthError
from antiphon.core.sampling import MAX_SEED
from antiphon.engine.context_window import WindowConfig, WindowMode
from antiphon.engine.duplex_decision import DecisionSampling
from antiphon.pipeline.duplex import session as pipeline
from antiphon.pipeline.duplex.front import DuplexFront, SessionHandle
from antiphon.pipeline.voice_book import PreparedVoice, VoiceBook
from antiphon.prompt.duplex_markup import DEFAULT_INSTRUCTIONS
from antiphon.realtime import engine as realtime
from antiphon.realtime.settings import DEFAULT_WINDOW, ContextWindow, SessionSettings
from antiphon.realtime.voice import VoiceClip
from antiphon.serving.realtime.pace import Pace

MAX_THREADS = 4
MAX_OPENINGS = 2  # at once: to make a new voice ready takes seconds
NEARLY_FULL = 0.8
DEFAULT_LENGTH_PENALTY = DecisionSampling().length_penalty
DEFAULT_VOICE = VoiceClip(b"the model's own voice")  # stands for it in the settings of a session that names none

Deliver = Callable[[realtime.EngineOutput], None]
OnUnit = Callable[[pipeline.UnitFinished], None]


def _watch_nothing(unit: pipeline.UnitFinished) -> None:
    """Nobody counts."""


class PipelineDuplexEngine:
    """A `DuplexEngine` over the pipeline.

    Args:
        front: of the pipeline's sessions.
        voices: makes recordings ready.
        model: the name that clients know the model by.
        default_recording: what the model's own voice is made from; None: there is no file of it.
        max_voice_s: longer recordings are cut.
        max_positions: of one session's context.
        speaks: whether the speech stages are there.
        executor: where recordings and pictures are decoded; None: threads of our own.

    Attributes:
        on_unit: told of each unit that was finished, on a thread of the pipeline.
    """

    def __init__(
        self,
        front: DuplexFront,
        voices: VoiceBook,
        *,
        model: str,
        default_recording: Path | None,
        max_voice_s: float,
        max_positions: int,
        speaks: bool,
        executor: Executor | None = None,
    ) -> None:
        self.front, self._voices, self._model = front, voices, model
        self._default_recording, self._max_voice_s = default_recording, max_voice_s
        self.max_positions = max_positions
        self._speaks = speaks
        self.executor = executor or ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="antiphon-sessions")
        self._openings = executor or ThreadPoolExecutor(MAX_OPENINGS, thread_name_prefix="antiphon-openings")
        self.on_unit: OnUnit = _watch_nothing

    @property
    def model(self) -> str:
        return self._model

    async def open(self, session_id: str, settings: SessionSettings, deliver: Deliver) -> realtime.EngineSession:
        """Begin a session: its voice is made ready and its system part fed.

        Raises:
            MediaError: the reference recording cannot be used.
            AntiphonError: as `DuplexFront.open`.
        """
        session = PipelineSession(self, session_id, settings, deliver)
        opening = asyncio.get_running_loop().run_in_executor(self._openings, session.begin)
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(session.abandon)
            raise
        return session

    def plan(self, name: str, settings: SessionSettings) -> pipeline.SessionPlan:
        """How the pipeline begins a session of *settings*. Decodes: call it off the event loop."""
        clip = settings.reference
        is_default = clip is None or clip == DEFAULT_VOICE
        speaks = self._speaks and settings.speaks
        source = None if is_default or clip is None else clip.data
        voice: PreparedVoice | None = self._voices.prepare(source) if speaks else None
        return pipeline.SessionPlan(
            session_id=name,
            instructions=settings.instructions or DEFAULT_INSTRUCTIONS,
            reference=self._recording(self._default_recording if source is None else source),
            voice=voice,
            first_text=settings.initial_user_text,
            window=window_of(settings.window, self.max_positions),
            seed=secrets.randbelow(MAX_SEED),
        )

    def _recording(self, source: bytes | Path | None) -> NDArray[np.float32] | None:
        if source is None:
            return None
        return load_audio(source)[: round(self._max_voice_s * SAMPLE_RATE_HZ)]

    def close(self) -> None:
        """End the threads; commands that still come are carried out where they are sent."""
        self._openings.shutdown(wait=True, cancel_futures=True)
        self.executor.shutdown(wait=True)


def window_of(window: ContextWindow, max_positions: int) -> WindowConfig:
    """The session's window, its marks lowered in proportion where the engine holds fewer positions."""
    # Room for the largest unit and its answer behind the high mark.
    limit = max(1, max_positions - min(512, max_positions // 4))
    high = min(window.high_tokens, limit)
    return WindowConfig(
        mode=WindowMode(window.mode),
        high_tokens=high,
        low_tokens=window.low_tokens * high // window.high_tokens,
        max_units=window.max_units,
        max_previous_ids=window.previous_max_tokens,
    )


class PipelineSession:
    """One session. Commands are carried out one after another on the engine's threads, so that `send` never blocks."""

    def __init__(
        self, engine: PipelineDuplexEngine, session_id: str, settings: SessionSettings, deliver: Deliver
    ) -> None:
        self._engine, self._id, self._settings, self._deliver = engine, session_id, settings, deliver
        self._handle: SessionHandle | None = None
        self._window = WindowConfig()  # in force
        self._num_opened = 0
        self._has_input = self._is_over = self._has_warned = self._has_failed = False
        self._pace = Pace()
        self._waiting: deque[realtime.EngineCommand] = deque()
        self._is_working = False
        self._lock = Lock()

    def begin(self) -> None:
        """Open it in the pipeline. Raises as `DuplexFront.open`."""
        name = f"{self._id}.{self._num_opened}"
        self._num_opened += 1
        plan = self._engine.plan(name, self._settings)
        self._window = plan.window
        self._handle = self._engine.front.open(plan, lambda event: self._hear(name, event))

    def abandon(self, opening: "asyncio.Future[None]") -> None:
        """Whoever asked for the session did not wait for it."""
        if not opening.cancelled() and opening.exception() is None:
            self.send(realtime.Close("open_abandoned"))

    def send(self, command: realtime.EngineCommand) -> None:
        with self._lock:
            self._waiting.append(command)
            if self._is_working:
                return
            self._is_working = True
        try:
            self._engine.executor.submit(self._work)
        except RuntimeError:  # the threads have ended: the server goes down, and the session with it
            self._work()

    def _work(self) -> None:
        """On a thread of the engine, one at a time."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_working = False
                    return
                command = self._waiting.popleft()
            try:
                self._do(command)
            except AntiphonError as error:
                self._fail(error.code, str(error))
            except Exception as error:  # noqa: BLE001 - the pool would swallow it, and the session would hang
                self._fail("engine_error", f"a command could not be carried out: {type(error).__name__}")

    def _do(self, command: realtime.EngineCommand) -> None:
        if self._is_over:
            return
        assert self._handle is not None
        if isinstance(command, realtime.Append):
            self._has_input = True
            self._append(command.unit)
        elif isinstance(command, realtime.Cancel):
            self._handle.cancel(command.epoch)
        elif isinstance(command, realtime.Reconfigure):
            self._reconfigure(command.settings)
        else:
            self._end()

    def _append(self, unit: realtime.Unit) -> None:
        assert self._handle is not None
        settings = self._settings
        try:
            frames = tuple(load_image(frame) for frame in self._pace.keep(unit.frames))
        except AntiphonError as error:
            self._deliver(realtime.UnitFailed(unit.epoch, unit.number, "invalid_video_frames", str(error)))
            self._handle.end_turn()
            return
        sampling = DecisionSampling(
            is_greedy=settings.temperature == 0.0,
            temperature=settings.temperature or 1.0,
            length_penalty=DEFAULT_LENGTH_PENALTY if settings.length_penalty is None else settings.length_penalty,
        )
        self._handle.append(
            pipeline.InputUnit(
                epoch=unit.epoch,
                number=unit.number,
                samples=unit.samples,
                frames=frames,
                force_listen=unit.force_listen,
                sampling=sampling,
                max_tokens=settings.max_unit_tokens or pipeline.MAX_UNIT_TOKENS,
            )
        )

    def _reconfigure(self, settings: SessionSettings) -> None:
        """Before any input the session simply begins anew; afterwards what is in its context stays as it is."""
        before, self._settings = self._settings, settings
        changes_start = (
            before.instructions != settings.instructions
            or before.initial_user_text != settings.initial_user_text
            or before.reference != settings.reference
            or before.speaks != settings.speaks
        )
        if changes_start and not self._has_input:
            assert self._handle is not None
            self._handle.close()
            self.begin()

    def _end(self) -> None:
        self._is_over = True
        if self._handle is not None:
            self._handle.close()
        self._deliver(realtime.EngineClosed())

    def _fail(self, code: str, message: str) -> None:
        self._deliver(realtime.EngineFailed(code, message))
        self._end()

    def _hear(self, name: str, event: pipeline.SessionEvent) -> None:
        """On a thread of the pipeline."""
        if self._is_over or name != f"{self._id}.{self._num_opened - 1}":
            return
        if isinstance(event, pipeline.Opened):
            self._tell_lowered_window()
        elif isinstance(event, pipeline.Decided):
            self._deliver(realtime.Decided(event.epoch, event.number, event.speaks))
        elif isinstance(event, pipeline.Spoken):
            self._deliver(realtime.Speech(event.epoch, event.number, event.samples, event.text))
        elif isinstance(event, pipeline.UnitFinished):
            self._finished(event)
        elif isinstance(event, pipeline.UnitFailed):
            if event.code == ContextLengthError.code:
                self._give_up("context_length_exceeded", event.message)
            else:
                self._deliver(realtime.UnitFailed(event.epoch, event.number, event.code, event.message))
        elif isinstance(event, pipeline.ContextCut):
            self._tell_cut(event)
        elif isinstance(event, pipeline.SessionFailed):
            self._give_up("engine_error", str(event.error))

    def _give_up(self, code: str, message: str) -> None:
        if not self._has_failed:
            self._has_failed = True
            self._deliver(realtime.EngineFailed(code, message))
            self.send(realtime.Close("engine_failed"))

    def _finished(self, event: pipeline.UnitFinished) -> None:
        self._engine.on_unit(event)
        if event.has_rebuilt_talker:
            text = "the talker's context was full; the speech goes on in a rebuilt one"
            self._deliver(realtime.ContextNotice("talker_window_rebuilt", text, {}))
        self._warn_if_nearly_full(event.context_tokens)
        self._warn_if_behind(event.unit_s)
        self._deliver(
            realtime.UnitDone(
                epoch=event.epoch,
                number=event.number,
                end_of_turn=event.end_of_turn,
                num_input_tokens=event.num_input_tokens,
                num_text_tokens=event.num_text_tokens,
                num_codec_frames=event.num_codec_frames,
                time_to_first_text_s=event.text_s,
                time_to_first_audio_s=event.audio_s,
                thinker_s=event.thinker_s,
                talker_s=event.talker_s,
                code2wav_s=event.code2wav_s,
            )
        )

    def _tell_lowered_window(self) -> None:
        """Marks that the session itself set do not give way unnoticed."""
        asked, held = self._settings.window, self._window
        if asked == DEFAULT_WINDOW or held.mode is not WindowMode.BASIC or held.high_tokens == asked.high_tokens:
            return
        details: dict[str, object] = {"high_tokens": held.high_tokens, "low_tokens": held.low_tokens}
        text = f"this server holds fewer tokens of a session than the {asked.high_tokens} asked for"
        self._deliver(realtime.ContextNotice("context_window_lowered", text, details))

    def _warn_if_nearly_full(self, num_tokens: int) -> None:
        limit = self._engine.max_positions
        if self._has_warned or self._settings.window.mode != WindowMode.OFF.value or num_tokens < NEARLY_FULL * limit:
            return
        self._has_warned = True
        details: dict[str, object] = {"tokens": num_tokens, "limit": limit, "ratio": round(num_tokens / limit, 3)}
        text = "the session's context is nearly full, and it has no sliding window; it ends when the context is"
        self._deliver(realtime.ContextNotice("context_nearly_full", text, details))

    def _warn_if_behind(self, unit_s: float) -> None:
        if not self._pace.note(unit_s):
            return
        details: dict[str, object] = {
            "lag_ms": round(1000 * self._pace.lag_s),
            "frames_dropped": self._pace.num_dropped_frames,
        }
        text = "units take longer than their second: answers come late, and video frames are left out until they do not"
        self._deliver(realtime.ContextNotice("falling_behind", text, details))

    def _tell_cut(self, event: pipeline.ContextCut) -> None:
        details: dict[str, object] = {
            "units": event.num_units,
            "tokens": event.num_tokens,
            "context_tokens": event.context_tokens,
        }
        text = f"the oldest {event.num_units} seconds have left the model's context"
        self._deliver(realtime.ContextNotice("context_window_moved", text, details))
