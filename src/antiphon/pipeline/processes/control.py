"""What the supervisor and its workers say to each other beside the messages of requests."""

from dataclasses import dataclass

from antiphon.config.deploy import DeployConfig
from antiphon.engine.counters import Observation
from antiphon.pipeline.encoding import MessageEncoding
from antiphon.pipeline.messages import MESSAGES
from antiphon.pipeline.voice_book import PreparedVoice


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """Which model the workers load, and the configuration in force. `deploy.origins` is left behind."""

    source: str
    deploy: DeployConfig
    dtype: str | None = None  # of Thinker and Talker; None: the checkpoint's own, on the CPU float32
    load_format: str = "auto"
    with_speech: bool = True
    default_voice: PreparedVoice | None = None  # made ready in the warm-up of Code2Wav


# --- to a worker ---


@dataclass(frozen=True, kw_only=True)
class BuildStages:
    """The first order: load these stages and make them ready."""

    model: ModelSpec
    stages: tuple[str, ...]
    device: str
    put_timeout_s: float  # how long a piece for another worker may wait for room there
    peers: tuple[str, ...] = ()  # devices of the further ranks of a tensor-parallel Thinker


@dataclass(frozen=True, kw_only=True)
class OpenInlet:
    """Listen for pieces for *stage* from another worker. *generation* tells one life of the edge from the next."""

    edge: str
    generation: int
    transport: str  # shm or tcp
    host: str  # tcp: the address to listen on


@dataclass(frozen=True, kw_only=True)
class OpenOutlet:
    """Send pieces for *stage* along *edge* to the inlet at *address*."""

    edge: str
    generation: int
    address: str


@dataclass(frozen=True, kw_only=True)
class CloseEdge:
    """The other end is gone."""

    edge: str


@dataclass(frozen=True, kw_only=True)
class Route:
    """Pieces of this request for *stage* take *edge*. Comes before the request."""

    request_id: str
    stage: str
    edge: str


@dataclass(frozen=True, kw_only=True)
class Release:
    """The request is over: forget its route."""

    request_id: str


@dataclass(frozen=True, kw_only=True)
class AskStatus:
    """Answer with `Status`, as a sign of life."""


@dataclass(frozen=True, kw_only=True)
class Stop:
    """End now."""


# --- from a worker ---


@dataclass(frozen=True, kw_only=True)
class Hello:
    """The process runs and listens."""

    pid: int


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What it is doing while it starts."""

    text: str


SESSION = "session"  # in `StagesReady.positions`: of a live session when all are there; told by the Thinker's worker


@dataclass(frozen=True, kw_only=True)
class StagesReady:
    """Loaded and warmed up. `positions`: the most that one sequence of a stage may have, where that is bounded."""

    positions: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class InletOpened:
    edge: str
    generation: int
    address: str


@dataclass(frozen=True, kw_only=True)
class OutletOpened:
    edge: str
    generation: int


@dataclass(frozen=True, kw_only=True)
class EdgeBroken:
    """An end could not be opened, or what came along it was damaged."""

    edge: str
    generation: int
    message: str


@dataclass(frozen=True, kw_only=True)
class Status:
    """Gauges are `stage.gauge`; counters as `Counters.snapshot`; observations are those since the last answer."""

    gauges: dict[str, float]
    counters: dict[str, int]
    observations: tuple[Observation, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Terminated:
    """The worker was sent SIGTERM: it finishes what it has and wants nothing new."""


@dataclass(frozen=True, kw_only=True)
class StartFailed:
    """The stages cannot be built; *code* is of the exception tree."""

    code: str
    message: str


CONTROL = (
    *(BuildStages, OpenInlet, OpenOutlet, CloseEdge, Route, Release, AskStatus, Stop),
    *(Hello, Progress, StagesReady, InletOpened, OutletOpened, EdgeBroken, Status, Terminated, StartFailed),
)


def front_encoding() -> MessageEncoding:
    """Between front and workers."""
    return MessageEncoding((*MESSAGES, *CONTROL))


def edge_encoding() -> MessageEncoding:
    """Between workers."""
    return MessageEncoding(MESSAGES)
