"""Drives one session by hand: a scripted model, a clock that only moves when told, and the frames it sent."""

import json
from base64 import b64encode
from typing import Any

import numpy as np
from msgspec import structs

from antiphon.core.ids import CountingIds
from antiphon.realtime.dialects.dialect import Dialect
from antiphon.realtime.dialects.vllm import VllmDialect
from antiphon.realtime.engine import Append, Cancel, Close, EngineClosed, EngineCommand, EngineOutput, Reconfigure
from antiphon.realtime.limits import Limits
from antiphon.realtime.opening import Opening, opening_settings
from antiphon.realtime.outbox import Outbox
from antiphon.realtime.script import DEFAULT_SCRIPT, Script, ScriptedRun, tone
from antiphon.realtime.session import Session
from antiphon.realtime.session_state import Surroundings
from antiphon.realtime.settings import SessionSettings
from antiphon.realtime.vad import LoudnessScorer
from antiphon.realtime.voice import VoiceClip

Event = dict[str, Any]
DEFAULTS = SessionSettings(reference=VoiceClip(b"voice"))
TURN: Event = {"modalities": ["text", "audio"]}
AUTO: Event = {"extra_body": {"auto_response": True}}


def pcm16(samples: np.ndarray) -> str:
    return b64encode((samples * 32767).astype("<i2").tobytes()).decode()


def float32(samples: np.ndarray) -> str:
    return b64encode(samples.astype("<f4").tobytes()).decode()


def loud(duration_ms: int, rate_hz: int = 16_000) -> str:
    return pcm16(tone(duration_ms, rate_hz))


def quiet(duration_ms: int) -> str:
    return pcm16(np.zeros(duration_ms * 16, np.float32))


class Drive:
    """A session, and everything around it. `run` lets the scripted time pass."""

    def __init__(
        self,
        session: Event | None = None,
        *,
        script: Script = DEFAULT_SCRIPT,
        limits: Limits | None = None,
        can_resume: bool = True,
        with_vad: bool = True,
        dialect: Dialect | None = None,
    ) -> None:
        self.now = 100.0
        self.limits = limits or Limits()
        around = Surroundings(ids=CountingIds(), limits=self.limits, scorer_source=LoudnessScorer if with_vad else None)
        spoken = dialect or VllmDialect()
        settings = opening_settings(Opening(session or {}), model="m", defaults=spoken.defaults(DEFAULTS))
        self.run_of_script = ScriptedRun(script)
        self.outbox = Outbox(self.limits)
        self.session = Session("s1", settings, around, now_s=self.now, can_resume=can_resume, dialect=spoken)
        self.session.opened(self.outbox, self.now, announces_update=spoken.rules.announces_open)
        self.due: list[tuple[float, EngineOutput]] = []
        self.commands: list[EngineCommand] = []
        self.events: list[Event] = []
        self._collect()

    @property
    def units(self) -> list[Append]:
        return [command for command in self.commands if isinstance(command, Append)]

    def send(self, type_: str, **fields: Any) -> list[Event]:
        """Send one event; gives what was answered at once."""
        return self.send_frame(json.dumps({"type": type_, **fields}))

    def send_frame(self, frame: str) -> list[Event]:
        mark = len(self.events)
        self.session.receive_frame(frame, self.now)
        self._collect()
        return self.events[mark:]

    def append(self, audio: str, **fields: Any) -> list[Event]:
        return self.send("input_audio_buffer.append", audio=audio, **fields)

    def commit(self, **fields: Any) -> list[Event]:
        return self.send("input_audio_buffer.commit", **fields)

    def drop(self) -> None:
        """The socket is gone."""
        self.session.detach(self.session.generation, self.now)
        self._collect()

    def deliver(self, output: EngineOutput) -> list[Event]:
        mark = len(self.events)
        self.session.handle(output, self.now)
        self._collect()
        return self.events[mark:]

    def run(self, duration_s: float = 5.0) -> list[Event]:
        """Let time pass, doing what is due in order; gives the events of that time."""
        mark = len(self.events)
        end = self.now + duration_s
        while True:
            wakeup = self.session.next_wakeup()
            times = [at for at, _ in self.due] + ([wakeup] if wakeup is not None else [])
            if not times or min(times) > end:
                break
            self.now = max(self.now, min(times))
            ready = sorted((item for item in self.due if item[0] <= self.now), key=lambda item: item[0])
            self.due = [item for item in self.due if item[0] > self.now]
            for _, output in ready:
                self.session.handle(output, self.now)
                self._collect()
            if wakeup is not None and wakeup <= self.now:
                self.session.tick(self.now)
                self._collect()
        self.now = end
        return self.events[mark:]

    def types(self, events: list[Event] | None = None) -> list[str]:
        return [event["type"] for event in (self.events if events is None else events)]

    def of_type(self, type_: str) -> list[Event]:
        return [event for event in self.events if event["type"] == type_]

    def _collect(self) -> None:
        for command in self.session.drain_commands():
            self.commands.append(command)
            if isinstance(command, Append):
                self.due += [(self.now + due.after_s, due.output) for due in self.run_of_script.unit(command.unit)]
            elif isinstance(command, Reconfigure):
                if command.settings.initial_user_text is not None and not self.units:
                    self.run_of_script.seed()
            elif isinstance(command, Cancel):
                self.run_of_script.cancel()
            elif isinstance(command, Close):
                self.due.append((self.now, EngineClosed()))
        while (frame := self.outbox.get()) is not None:
            self.events.append(json.loads(frame))


def error_code(events: list[Event]) -> str:
    (error,) = [event for event in events if event["type"] == "error"]
    return str(error["error"]["code"])


def slow(script: Script = DEFAULT_SCRIPT, stall_ms: float = 60_000) -> Script:
    """An engine that gets to nothing for a minute."""
    return structs.replace(script, stall_ms=stall_ms)
