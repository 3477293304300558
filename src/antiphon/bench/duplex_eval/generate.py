"""Shows every sample to the server and writes down what it said; samples that have their file already are skipped."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import aiohttp

from antiphon.bench.duplex_eval.artifacts import meta_path, read_object, response_path, write_json
from antiphon.bench.duplex_eval.media import keep_media, make_stream
from antiphon.bench.duplex_eval.samples import Sample
from antiphon.bench.duplex_eval.sentences import cut_sentences, sentences_document
from antiphon.bench.duplex_eval.session import MAX_LATENESS_S, SessionLostError, SessionRecord, run_session
from antiphon.bench.duplex_eval.session_metrics import METRICS_FILE, merge_metrics, session_rows
from antiphon.bench.duplex_eval.session_settings import INSTRUCTIONS, SessionSettings
from antiphon.bench.load import Clock, Sleep, run_load
from antiphon.core.errors import ConfigError, MediaError

MEDIA_CLOCK, INVALID_CLOCK = "media", "invalid"
MIX = "question"


@dataclass(frozen=True, kw_only=True)
class GenerateSettings:
    """`fps`: frames a second, at most one for each unit."""

    response_root: Path
    session: SessionSettings
    fps: float = 1.0
    concurrency: int = 1
    overwrite: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.fps <= 1:
            raise ConfigError(f"--fps is {self.fps:g}; a unit of one second takes one frame, so give at most 1")
        if self.concurrency < 1:
            raise ConfigError(f"--concurrency is {self.concurrency}; give at least 1")


@dataclass(frozen=True)
class Generated:
    """What became of one sample: `error` is empty unless it failed; a skipped one has no record."""

    sample: Sample
    record: SessionRecord | None
    error: str
    num_sentences: int = 0

    @property
    def was_skipped(self) -> bool:
        return self.record is None and not self.error


async def generate(
    samples: Sequence[Sample],
    settings: GenerateSettings,
    tell: Callable[[Generated], None],
    *,
    clock: Clock = perf_counter,
    sleep: Sleep = asyncio.sleep,
) -> list[Generated]:
    """Run all *samples*; a failed one does not end the others.

    Args:
        tell: called after each sample.

    Raises:
        ConfigError: a file cannot be written.
    """
    lock = asyncio.Lock()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:

        async def run(sample: Sample, _: float) -> Generated:
            found = await _run_sample(http, sample, settings, clock, sleep)
            if found.record is not None:
                async with lock:
                    _keep_metrics(settings.response_root, found)
            tell(found)
            return found

        return await run_load(
            samples, [0.0] * len(samples), run, max_concurrency=settings.concurrency, clock=clock, sleep=sleep
        )  # fmt: skip


async def _run_sample(
    http: aiohttp.ClientSession, sample: Sample, settings: GenerateSettings, clock: Clock, sleep: Sleep
) -> Generated:
    root = settings.response_root
    path = response_path(root, sample.split, sample.sample_id)
    if path.exists() and not settings.overwrite:
        return Generated(sample, None, "")
    try:
        # Decoding takes a while, and must not hold up the clocks of other sessions.
        video = await asyncio.to_thread(keep_media, sample, root)
        stream = await asyncio.to_thread(make_stream, video, sample.question_audio, settings.fps)
        record = await run_session(http, stream, settings.session, clock=clock, sleep=sleep)
    except (MediaError, SessionLostError) as error:
        return Generated(sample, None, str(error))
    sentences = cut_sentences(record.transcript.pieces)
    write_json(meta_path(root, sample.split, sample.sample_id), _meta(sample, settings, record))
    write_json(path, sentences_document(sentences))  # last: its presence says that the sample is done
    return Generated(sample, record, "", len(sentences))


def _meta(sample: Sample, settings: GenerateSettings, record: SessionRecord) -> dict[str, object]:
    session = settings.session
    is_on_time = session.is_realtime and record.worst_lateness_s <= MAX_LATENESS_S
    return {
        "id": sample.sample_id,
        "split": sample.split,
        "clock": MEDIA_CLOCK if is_on_time else INVALID_CLOCK,
        "pace": session.pace.value,
        "mix": MIX,
        "fps": settings.fps,
        "unit_ms": record.unit_ms,
        "model": session.model,
        "instructions": INSTRUCTIONS,
        "response_done": record.is_response_done,
        "drain_timeout": record.has_drain_timeout,
        "close_timeout": record.has_close_timeout,
        "worst_lateness_s": round(record.worst_lateness_s, 3),
        "errors": record.transcript.errors,
        "ref_audio_sha256": None if session.reference is None else hashlib.sha256(session.reference).hexdigest(),
    }


def _keep_metrics(root: Path, found: Generated) -> None:
    assert found.record is not None
    requests, session = session_rows(found.record, found.sample.split, found.sample.sample_id)
    path = root / METRICS_FILE
    write_json(path, merge_metrics(read_object(path), requests, [session]))
