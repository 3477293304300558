"""Puts the Realtime endpoint of a deployment together: the pipeline's sessions, limits, voice and detector."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from antiphon.audio.silero_vad import SileroModel, SileroScorer
from antiphon.config.deploy import DuplexSessionConfig
from antiphon.pipeline.duplex.front import DuplexFront
from antiphon.pipeline.duplex.session import UnitFinished
from antiphon.pipeline.voice_book import VoiceBook
from antiphon.realtime.limits import Limits
from antiphon.realtime.vad import ScorerSource
from antiphon.serving.realtime.hub import Hub
from antiphon.serving.realtime.pipeline_engine import DEFAULT_VOICE, PipelineDuplexEngine
from antiphon.serving.realtime.routes import realtime_hub
from antiphon.serving.realtime.settings import DEFAULT_SESSION, RealtimeSettings
from antiphon.serving.realtime.vad_watch import VadWatch
from antiphon.serving.settings import ServeSettings
from antiphon.telemetry.families import Families

_SILERO_FILE = "data/silero_vad.onnx"  # in the package of that name


@dataclass(frozen=True)
class RealtimeService:
    """What the application mounts."""

    hub: Hub
    engine: PipelineDuplexEngine
    vad: VadWatch = field(default_factory=VadWatch)

    def gauges(self) -> Mapping[str, float]:
        return {"realtime.sessions": self.hub.num_sessions, "realtime.max_sessions": self.engine.front.max_sessions}

    def refresh(self, families: Families) -> None:
        """Take over what the detectors did since the last call."""
        families.of(families.vad_active_sessions).set(self.hub.num_detecting)
        self.vad.move_to(families)

    def watch(self, families: Families) -> None:
        """Count every unit in *families*."""

        def count(unit: UnitFinished) -> None:
            families.of(families.unit_decision_s).observe(unit.decision_s)
            families.of(families.unit_late_s).observe(unit.late_s)
            if unit.audio_s is not None:
                families.of(families.unit_audio_s).observe(unit.audio_s)

        self.engine.on_unit = count

    async def drain(self, timeout_s: float) -> None:
        """Tell all sessions, wait for them, then end what is left."""
        await self.hub.drain(timeout_s)


def realtime_service(
    front: DuplexFront,
    voices: VoiceBook,
    config: DuplexSessionConfig,
    settings: ServeSettings,
    *,
    model: str,
    default_recording: Path | None,
    max_voice_s: float,
    max_positions: int,
    speaks: bool,
    is_duplex: bool,
) -> RealtimeService:
    """The endpoint over *front*.

    Args:
        config: limits of the sessions.
        settings: keys, origins, and where traces are kept.
        is_duplex: false: the deployment serves turns only, and every session is refused with that.

    The rest as `PipelineDuplexEngine`.

    Raises:
        ConfigError: the detector's file cannot be used.
    """
    engine = PipelineDuplexEngine(
        front,
        voices,
        model=model,
        default_recording=default_recording,
        max_voice_s=max_voice_s,
        max_positions=max_positions,
        speaks=speaks,
    )
    modalities = DEFAULT_SESSION.modalities if speaks else ("text",)
    source, vad = _scorer_source(config.server_vad_model_path), VadWatch()
    realtime = RealtimeSettings(
        limits=_limits(config),
        defaults=replace(DEFAULT_SESSION, model=model, modalities=modalities, reference=DEFAULT_VOICE),
        api_keys=settings.api_keys,
        allowed_origins=settings.live_origins,
        scorer_source=None if source is None else vad.watched(source),
        on_speech_end=vad.end_found,
        is_duplex=is_duplex,
        record_folder=settings.record_folder,
    )
    return RealtimeService(realtime_hub(engine, realtime, has_room=lambda: front.has_room), engine, vad)


def _limits(config: DuplexSessionConfig) -> Limits:
    return Limits(
        max_sessions=config.max_sessions,
        idle_ttl_s=config.idle_ttl_s,
        max_session_s=config.max_session_s,
        disconnect_grace_s=config.disconnect_grace_s,
        resume_replay_ttl_s=config.resume_replay_ttl_s,
        resume_replay_max_bytes_per_session=config.resume_replay_max_bytes_per_session,
        max_pending_input_bytes_per_session=config.max_pending_input_bytes_per_session,
        max_pending_turns_per_session=config.max_pending_turns_per_session,
        max_pending_output_bytes=config.max_pending_output_bytes,
        max_pending_output_events=config.max_pending_output_events,
    )


def _scorer_source(path: str | None) -> ScorerSource | None:
    """The detector of the named file, else of the installed package; None: sessions that ask for one are refused."""
    file = Path(path) if path is not None else _installed_file()
    return None if file is None else partial(SileroScorer, SileroModel(file))


def _installed_file() -> Path | None:
    spec = find_spec("silero_vad")
    folders = [] if spec is None or spec.submodule_search_locations is None else list(spec.submodule_search_locations)
    return next((Path(folder) / _SILERO_FILE for folder in folders), None)
