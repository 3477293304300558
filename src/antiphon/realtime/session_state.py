"""What the parts of one session share. It decides nothing; the parts do."""

from collections.abc import Callable
from dataclasses import dataclass

from antiphon.core.ids import IdSource
from antiphon.realtime.conversation import Conversation
from antiphon.realtime.dialects.dialect import Dialect, Rules
from antiphon.realtime.emitter import Emitter
from antiphon.realtime.engine import Append, EngineCommand
from antiphon.realtime.input_buffer import InputBuffer
from antiphon.realtime.journal import Journal
from antiphon.realtime.lease import Lease
from antiphon.realtime.life import PUBLIC, life_machine
from antiphon.realtime.limits import Limits
from antiphon.realtime.playback import PlaybackLedger
from antiphon.realtime.public_session import SessionFacts, public_session
from antiphon.realtime.response import Response
from antiphon.realtime.settings import SessionSettings
from antiphon.realtime.turn import TurnEvent, turn_machine
from antiphon.realtime.unit_chain import UnitChain
from antiphon.realtime.usage import Usage
from antiphon.realtime.vad import ScorerSource
from antiphon.wire.realtime.json_frame import JsonObject
from antiphon.wire.realtime.server_events import ServerEvent


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a session is given from outside."""

    ids: IdSource
    limits: Limits
    scorer_source: ScorerSource | None = None  # None: this server has no voice activity detector
    on_speech_end: Callable[[float], None] | None = None  # told how late a detector found one, in seconds
    unix_s_at_zero: float = 0.0  # the wall clock when the sessions' clock stood at 0


class SessionState:
    """The state of one session. `now_s` is the caller's clock, set at each entry."""

    def __init__(
        self,
        session_id: str,
        settings: SessionSettings,
        around: Surroundings,
        *,
        dialect: Dialect,
        now_s: float,
        can_resume: bool,
    ) -> None:
        limits = around.limits
        self.id = session_id
        self.settings = settings
        self.around = around
        self.limits = limits
        self.ids = around.ids
        self.can_resume = can_resume and dialect.rules.can_resume
        self.now_s = now_s
        self.ends_at_s = None if limits.max_session_s is None else now_s + limits.max_session_s
        self.life = life_machine()
        self.turn = turn_machine()
        self.journal = Journal(max_bytes=limits.resume_replay_max_bytes_per_session, ttl_s=limits.resume_replay_ttl_s)
        self.emitter = Emitter(around.ids, self.journal, session_id, dialect)
        self.lease = Lease(around.ids, idle_ttl_s=limits.idle_ttl_s, grace_s=limits.disconnect_grace_s, now_s=now_s)
        self.conversation = Conversation(limits.max_items)
        self.ledger = PlaybackLedger(limits.playback_slack_s)
        self.buffer = InputBuffer()
        self.chain = UnitChain()
        self.commands: list[EngineCommand] = []
        self.response: Response | None = None
        self.epoch = 0
        self.turn_id = 0
        self.unbilled = Usage()  # units since the last response began
        self.total = Usage()
        self.last_submission_s = now_s
        self.last_append_s = now_s
        self.has_accepted_audio = False
        self.has_submitted = False  # the model has begun to read
        self.has_spoken = False

    @property
    def emit(self) -> Callable[[ServerEvent], None]:
        return self.emitter.emit

    @property
    def rules(self) -> Rules:
        return self.emitter.dialect.rules

    @property
    def is_in_progress(self) -> bool:
        """A response runs, or the client has speech that it has not played (specification section 6.7)."""
        return self.response is not None or bool(self.ledger.owed())

    def enter(self, now_s: float) -> None:
        self.now_s = self.emitter.now_s = now_s

    def submit_next(self) -> None:
        """Send the engine the next unit, if it has none."""
        unit = self.chain.next()
        if unit is not None:
            self.last_submission_s = self.now_s
            self.has_submitted = True
            self.commands.append(Append(unit))

    def new_item_id(self) -> str:
        return f"item_{self.ids.new_hex(24)}"

    def fire_turn(self, event: TurnEvent) -> None:
        self.turn.fire(event)

    def shown(self) -> JsonObject:
        """The public session object, as things are."""
        facts = SessionFacts(
            id=self.id,
            state=PUBLIC[self.life.state],
            turn_state=self.turn.state.value,
            epoch=self.epoch,
            turn_id=self.turn_id,
            active_response_id=None if self.response is None else self.response.id,
            playback=self.ledger.latest(),
            can_resume=self.can_resume,
            max_sessions=self.limits.max_sessions,
            expires_at=None if self.ends_at_s is None else int(self.around.unix_s_at_zero + self.ends_at_s),
        )
        return public_session(self.settings, facts)
