"""A unit's own second goes with it through all stages, and requests stand behind it."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from antiphon.core.sampling import DEFAULT_STAGE_PARAMS
from antiphon.engine.audio_messages import AudioRows, AudioStep
from antiphon.engine.code2wav_streams import SpeechJob
from antiphon.engine.context_window import Cut, WindowConfig
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.duplex_decision import DecisionSampling
from antiphon.engine.talker_job import TalkerCondition, TalkerJob, TalkerOutput
from antiphon.engine.thinker_messages import ThinkerJob, ThinkerOutput, ThinkerPiece
from antiphon.pipeline.messages import SessionStart, SessionTalk, SessionUnit, SessionVoice, SpokenUnit, UnitCodes
from antiphon.pipeline.stages.code2wav_sessions import Code2WavSessions
from antiphon.pipeline.stages.talker_sessions import TalkerSessions
from antiphon.pipeline.stages.thinker import BEHIND_SESSIONS
from antiphon.pipeline.stages.thinker_sessions import ThinkerSessions
from antiphon.prompt.tokenizer import Tokenizer

TOKENIZER = Tokenizer.placeholder(1_000)
STREAM = DeviceStream(torch.device("cpu"))
DUE_S = 7.5


class FakeThinker:
    def __init__(self) -> None:
        self.pieces: list[ThinkerPiece] = []

    def admit(self, job: ThinkerJob) -> None: ...

    def extend(self, seq_id: str, piece: ThinkerPiece) -> None:
        self.pieces.append(piece)

    def abort(self, seq_id: str) -> None: ...
    def can_cut(self, seq_id: str) -> bool:
        return True

    def cut(self, seq_id: str, cut: Cut) -> None: ...


class FakeStreams:
    def open(self, stream_id: str) -> None: ...

    def step(self, steps: Sequence[AudioStep]) -> AudioRows:
        return AudioRows(tuple(torch.zeros(10, 4) for _ in steps), STREAM.fence())

    def close(self, stream_id: str) -> None: ...
    def warm_up(self, report: Callable[[str], None]) -> None: ...
    def snapshot(self) -> dict[str, float]:
        return {}


class FakeMedia:
    def encode_images(self, strips: list[torch.Tensor], grids: list[tuple[int, int]]) -> list[torch.Tensor]:
        return []

    def encode_audio(self, mels: list[torch.Tensor]) -> list[torch.Tensor]:
        return []


class FakeTalker:
    is_idle = True

    def __init__(self) -> None:
        self.conditions: list[TalkerCondition] = []

    def warm_up(self, report: Callable[[str], None]) -> None: ...
    def admit(self, job: TalkerJob) -> None: ...

    def extend(self, seq_id: str, condition: TalkerCondition) -> None:
        self.conditions.append(condition)

    def abort(self, seq_id: str) -> None: ...
    def launch(self) -> bool:
        return False

    def collect(self) -> list[TalkerOutput]:
        return []

    def snapshot(self) -> dict[str, float]:
        return {}


class FakeVocoder:
    def __init__(self) -> None:
        self.jobs: list[SpeechJob] = []

    def admit(self, job: SpeechJob) -> None:
        self.jobs.append(job)

    def push(self, stream_id: str, codes: tuple[int, ...], *, is_last: bool) -> None: ...
    def close_input(self, stream_id: str) -> None: ...
    def abort(self, stream_id: str) -> None: ...


def spoken_unit(number: int, deadline_s: float) -> SpokenUnit:
    rows = torch.zeros(2, 4)
    return SpokenUnit(
        request_id="s", epoch=0, number=number, ids=(1, 2), rows=rows, ends_turn=False, deadline_s=deadline_s
    )


def test_the_thinker_is_given_the_deadline_and_hands_it_on() -> None:
    engine, special = FakeThinker(), TOKENIZER.special
    sessions = ThinkerSessions(
        engine, FakeMedia(), FakeStreams(), TOKENIZER, stream=STREAM, hidden_size=4, max_positions=900
    )  # fmt: skip
    sessions.start(
        SessionStart(
            request_id="s",
            epoch=0,
            prefix=(1,),
            reference=(),
            suffix=(2,),
            window=WindowConfig(),
            speaks=True,
            seed=0,
            max_unit_chars=None,
        )
    )
    sessions.take(ThinkerOutput(seq_id="s", epoch=0, has_ended_turn=True))
    sessions.unit(
        SessionUnit(
            request_id="s",
            epoch=0,
            number=0,
            mel=np.zeros((80, 104), np.float32),
            trim_front=1,
            trim_end=1,
            images=(),
            force_listen=False,
            sampling=DecisionSampling(),
            max_tokens=20,
            deadline_s=DUE_S,
        )
    )
    sessions.launch()
    assert engine.pieces[0].deadline_s == DUE_S
    ids = (special.speak, 5)
    sessions.take(
        ThinkerOutput(
            seq_id="s",
            epoch=0,
            new_ids=ids,
            row_ids=ids,
            hidden=torch.zeros(2, 4),
            has_ended_turn=True,
            stop_id=special.chunk_eos,
            is_turn_open=True,
        )
    )
    assert [unit.deadline_s for unit in sessions.outputs if isinstance(unit, SpokenUnit)] == [DUE_S]


def test_requests_stand_behind_the_units_of_sessions() -> None:
    assert ThinkerPiece(ids=(1,)).priority < BEHIND_SESSIONS


def test_each_condition_of_the_talker_has_its_units_deadline_and_hands_it_on() -> None:
    engine = FakeTalker()
    sessions = TalkerSessions(engine, stream=STREAM, always_flushes=False)
    sessions.start(SessionTalk(request_id="s", epoch=0, sampling=DEFAULT_STAGE_PARAMS[1], seed=0))
    for number in range(2):
        sessions.extend(spoken_unit(number, DUE_S + number))
        sessions.take(TalkerOutput(seq_id="s", epoch=0, codes=tuple(range(25)), condition_ended=True))
    assert [condition.deadline_s for condition in engine.conditions] == [DUE_S, DUE_S + 1]
    assert [codes.deadline_s for codes in sessions.outputs if isinstance(codes, UnitCodes)] == [DUE_S, DUE_S + 1]


def test_a_turn_is_due_with_its_first_unit_and_not_with_the_opening_of_its_session() -> None:
    engine = FakeVocoder()
    sessions = Code2WavSessions(engine, lambda voice: None)
    sessions.start(
        SessionVoice(
            request_id="s",
            epoch=0,
            voice_key="v",
            voice_codes=np.zeros(4, np.int64),
            voice_xvector=np.zeros(192, np.float32),
            voice_mel=np.zeros((8, 80), np.float32),
            seed=0,
            deadline_s=0.0,
        )
    )
    for number, ends_turn in enumerate((False, True, True)):
        sessions.extend(
            UnitCodes(
                request_id="s",
                epoch=0,
                number=number,
                chunks=((1,) * 28,),
                ends_turn=ends_turn,
                deadline_s=DUE_S + number,
            )
        )
    assert [job.deadline_s for job in engine.jobs] == [DUE_S, DUE_S + 2]
