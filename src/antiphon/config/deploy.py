"""The deploy configuration in force, as frozen types the engine consumes.

Field names are the deploy files' own (vLLM-Omni's spelling), so a value's path is the same here, in YAML and in
`antiphon config show`. Standard library only: a GPU machine without pydantic and YAML can hold one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from antiphon.config.optimizations import OptimizationsConfig
from antiphon.config.origin import Origin, OriginKind
from antiphon.core.sampling import SamplingParams

# Only the Thinker reads media and shares prefixes; files may not set these in other stages.
THINKER_KEYS = frozenset({"enable_prefix_caching", "interleave_mm_strings", "media_io_kwargs", "limit_mm_per_prompt"})
ZEROMQ = "ZeroMQConnector"
ZEROMQ_KEYS = ("host", "port")
PLATFORMS = ("cuda", "rocm", "npu", "xpu", "musa", "cpu")


@dataclass(frozen=True, kw_only=True)
class PipelineShape:
    """What a pipeline's code fixes (deploy specification, section 1): a file can neither add nor remove stages."""

    name: str
    stage_names: tuple[str, ...]
    edges: tuple[tuple[int, int], ...]
    chunk_edge: tuple[int, int]  # the edge that carries codec chunks over a connector
    has_duplex: bool


PIPELINES: Mapping[str, PipelineShape] = {
    "minicpmo_4_5": PipelineShape(
        name="minicpmo_4_5",
        stage_names=("thinker", "talker", "code2wav"),
        edges=((0, 1), (1, 2)),
        chunk_edge=(1, 2),
        has_duplex=True,
    )
}


@dataclass(frozen=True, kw_only=True)
class MediaLimits:
    """Most items of a kind in one prompt; None is no limit."""

    image: int | None = None
    audio: int | None = None
    video: int | None = None


@dataclass(frozen=True, kw_only=True)
class VideoIO:
    """How a video is read; None leaves it to the model's own rule."""

    fps: float | None = None  # frames per second taken
    num_frames: int | None = None  # most frames taken


@dataclass(frozen=True, kw_only=True)
class MediaIO:
    video: VideoIO = VideoIO()


@dataclass(frozen=True, kw_only=True)
class StageConfig:
    """One stage on its devices. `devices` are indices into the visible set; the same list serves every replica
    (as long as the tensor parallel size), or is a pool that is split in order."""

    stage_id: int
    name: str
    devices: tuple[int, ...]
    num_replicas: int
    tensor_parallel_size: int
    gpu_memory_utilization: float  # fraction of the device's total memory, per replica
    kv_cache_memory_bytes: int | None  # replaces the computation from the share
    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int | None  # tokens; None is the model's own limit
    dtype: str
    load_format: str
    enforce_eager: bool  # for thinker and talker the negation of their graph switch
    enable_chunked_prefill: bool
    enable_prefix_caching: bool
    async_chunk: bool
    interleave_mm_strings: bool
    media_io_kwargs: MediaIO
    limit_mm_per_prompt: MediaLimits
    default_sampling_params: SamplingParams
    output_connectors: Mapping[int, str]  # consumer's stage id to connector
    input_connectors: Mapping[int, str]  # producer's stage id to connector
    env: Mapping[str, str]

    def replica_devices(self) -> tuple[tuple[int, ...], ...]:
        """The devices of each replica; a replica count of 0 (all of them remote) gives none."""
        size = self.tensor_parallel_size
        if len(self.devices) == size:
            return (self.devices,) * self.num_replicas
        return tuple(self.devices[index * size : (index + 1) * size] for index in range(self.num_replicas))


@dataclass(frozen=True, kw_only=True)
class ConnectorExtra:
    """What a connector and the Code2Wav stage behind it are told. Frames are codec frames of 40 ms."""

    codec_chunk_frames: int = 25  # follows optimizations.chunk_frames
    codec_left_context_frames: int = 3
    enable_hift_graph: bool = True  # follows optimizations.hift_graph
    enable_cfm_graph: bool = True  # follows optimizations.cfm_graph
    cfm_max_graphs: int = 32
    cfm_graph_bucket_frames: int = 0  # lengths are rounded up to a multiple; 0 keeps them exact
    token2wav_n_timesteps: int = 10  # follows optimizations.cfm_steps
    token2wav_runtime_prompt_cache_size: int = 4  # voices
    token2wav_setup_cache_size: int = 1  # voices
    code2wav_bfloat16_attention_cache: bool = False  # follows optimizations.cache_precision
    code2wav_min_batch_size: int = 1  # streams
    code2wav_initial_batch_size: int = 0  # streams; 0 is no rule of its own
    ref_audio_max_seconds: float = 6.0
    prompt_wav: str | None = None  # default voice; None is the checkpoint's
    prompt_cache_id: str = "HT_ref_audio"
    host: str = "127.0.0.1"  # ZeroMQConnector only
    port: int = 50051  # ZeroMQConnector only


@dataclass(frozen=True, kw_only=True)
class ConnectorConfig:
    name: str  # registered class
    extra: ConnectorExtra = ConnectorExtra()


@dataclass(frozen=True, kw_only=True)
class DuplexSessionConfig:
    """Limits of the realtime sessions."""

    max_sessions: int = 1
    idle_ttl_s: float | None = 300.0  # None is never
    max_session_s: float | None = None  # however busy; None is no limit
    disconnect_grace_s: float = 30.0
    reaper_interval_s: float = 5.0
    resume_replay_ttl_s: float = 60.0
    resume_replay_max_bytes_per_session: int = 8 * 2**20
    max_pending_input_bytes_per_session: int = 16 * 2**20
    max_pending_turns_per_session: int = 4
    max_pending_output_bytes: int = 2 * 2**20
    max_pending_output_events: int = 512
    warmup_frames: int = 0  # negative disables
    server_vad_model_path: str | None = None


@dataclass(frozen=True, kw_only=True)
class DeployConfig:
    """Everything an operator may set, resolved. `origins` maps dotted paths to where a value was written."""

    pipeline: str
    platform: str
    session_mode: str  # duplex or turn
    async_chunk: bool
    stages: tuple[StageConfig, ...]
    connectors: Mapping[str, ConnectorConfig]
    duplex_session: DuplexSessionConfig
    optimizations: OptimizationsConfig
    origins: Mapping[str, Origin] = field(default_factory=dict, compare=False, repr=False)

    def origin(self, path: str) -> Origin:
        return self.origins.get(path, Origin(OriginKind.CODE))
