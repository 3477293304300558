"""From the deploy configuration to what each engine is told. Every configured field is used here, or refused here, or
stands in `ELSEWHERE` or `NO_EFFECT` with its reason.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from math import ceil

from antiphon.config.checkpoint import DecoderConfig, ModelConfig
from antiphon.config.deploy import ConnectorExtra, DeployConfig, StageConfig
from antiphon.config.problems import DeployError, Problem
from antiphon.core.sampling import STAGE_NAMES
from antiphon.engine.audio_units import audio_slot_bytes
from antiphon.engine.code_buffer import CHUNK_IDS, LOOKAHEAD_IDS
from antiphon.engine.settings import Code2WavSettings, TalkerSettings, ThinkerSettings
from antiphon.prompt.video import MAX_MOMENTS

BLOCK_TOKENS = 16
MIN_MODEL_LEN = 512  # tokens; a picture alone takes 64
_GRAPH_BATCHES = (1, 2, 4, 8, 16)
_LADDER = (1, 2, 4, 8, 25, 28)

# Used, but not by the engines' settings.
ELSEWHERE = {
    "DeployConfig": {
        "pipeline": "which model is built",
        "platform": "which overlay applies",
        "async_chunk": "spread over the stages",
        "origins": "where values were written",
        "session_mode": "whether live sessions are served, see serving/realtime/service.py",
        "duplex_session": "limits of live sessions; max_sessions also sizes the Thinker's caches",
    },
    "StageConfig": {
        "stage_id": "name of the stage",
        "name": "name of the stage",
        "dtype": "loading; Code2Wav computes in float32, see optimizations.dit_precision",
        "load_format": "loading",
        "enforce_eager": "follows optimizations.thinker_graph and talker_graph",
        "limit_mm_per_prompt": "the front checks prompts",
        "media_io_kwargs": "the front decodes videos, by the model's own rule",
        "interleave_mm_strings": "the front: parts always stand where the message has them",
        "default_sampling_params": "the front's defaults",
        "output_connectors": "edges between workers",
        "input_connectors": "edges between workers",
    },
    "ConnectorExtra": {
        "codec_chunk_frames": "follows optimizations.chunk_frames",
        "enable_hift_graph": "follows optimizations.hift_graph",
        "enable_cfm_graph": "follows optimizations.cfm_graph",
        "token2wav_n_timesteps": "follows optimizations.cfm_steps",
        "code2wav_bfloat16_attention_cache": "follows optimizations.cache_precision",
        "ref_audio_max_seconds": "the front cuts reference recordings",
        "prompt_wav": "the front's default voice",
        "host": "edges between workers",
        "port": "edges between workers",
    },
    "OptimizationsConfig": {
        "early_stop": "the Thinker stage",
        "hand_off": "the front",
    },
}
NO_EFFECT = {
    "DuplexSessionConfig": {
        "reaper_interval_s": "every limit has a timer of its own",
        "warmup_frames": "every shape is captured before the server is ready",
    },
    "StageConfig": {
        "max_num_batched_tokens": "of code2wav: a launch holds one chunk of each stream",
        "max_model_len": "of code2wav: streams have no end",
        "kv_cache_memory_bytes": "of code2wav: its caches have a fixed size per stream",
    },
    "ConnectorExtra": {
        "cfm_max_graphs": "all shapes are captured before a stage is ready; their number is fixed",
        "cfm_graph_bucket_frames": "graphs are captured for the exact lengths of chunks",
        "prompt_cache_id": "voices are known by their recording",
    },
}


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """What the three engines of one device are told."""

    thinker: ThinkerSettings
    talker: TalkerSettings
    code2wav: Code2WavSettings


@dataclass(frozen=True, kw_only=True)
class MemoryFacts:
    """What the sizes of caches follow from. `device_bytes` None: the stages compute on the CPU."""

    device_bytes: int | None  # of the whole device
    thinker_weight_bytes: int  # of one tensor parallel rank
    talker_weight_bytes: int
    item_bytes: int  # of one cache number of Thinker and Talker


def engine_settings(
    config: DeployConfig, model: ModelConfig, memory: MemoryFacts, *, names: Collection[str] = STAGE_NAMES
) -> EngineSettings:
    """The settings in force for the stages *names* of one worker; those of the others are not looked at.

    Raises:
        DeployError: every value that the engines cannot honour.
    """
    problems = list(_problems(config))
    if problems:
        raise DeployError(problems)
    thinker, talker, code2wav = config.stages
    return EngineSettings(
        thinker=_thinker(config, thinker, model, memory) if thinker.name in names else ThinkerSettings(),
        talker=_talker(config, talker, model, memory) if talker.name in names else TalkerSettings(),
        code2wav=_code2wav(config, code2wav) if code2wav.name in names else Code2WavSettings(),
    )


def speech_extra(config: DeployConfig) -> ConnectorExtra:
    """What is said about speech where codec chunks cross: the connector of Code2Wav's input, or the defaults."""
    names = list(config.stages[2].input_connectors.values())
    return config.connectors[names[0]].extra if names else ConnectorExtra()


def _thinker(config: DeployConfig, stage: StageConfig, model: ModelConfig, memory: MemoryFacts) -> ThinkerSettings:
    max_len = min(stage.max_model_len or model.llm.max_positions, model.llm.max_positions)
    block_bytes = BLOCK_TOKENS * position_bytes(model.llm, memory.item_bytes) // stage.tensor_parallel_size
    num_streams = config.duplex_session.max_sessions if config.session_mode == "duplex" else 0
    # The audio caches of live sessions are taken out of the same share.
    num_slots = num_streams if config.optimizations.audio_stream_batch else 0
    held_bytes = memory.thinker_weight_bytes + num_slots * audio_slot_bytes(model.audio, memory.item_bytes)
    budget = _cache_bytes(stage, memory, held_bytes)
    num_fitting = ceil(max_len / BLOCK_TOKENS) if budget is None else budget // block_bytes
    if stage.max_model_len is None:  # the model's own limit, or what its share holds
        max_len = min(max_len, num_fitting * BLOCK_TOKENS)
    if max_len < MIN_MODEL_LEN or num_fitting * BLOCK_TOKENS < max_len:
        raise DeployError(
            [
                Problem(
                    f"stage {stage.stage_id} ({stage.name})",
                    f"its share leaves room for {num_fitting * BLOCK_TOKENS} tokens of cache, one sequence may have "
                    f"{max(max_len, MIN_MODEL_LEN)}: raise gpu_memory_utilization or kv_cache_memory_bytes, or lower "
                    "max_model_len",
                )
            ]
        )
    # More blocks than all rows and all sessions can fill would only be allocated.
    most = (stage.max_num_seqs + config.duplex_session.max_sessions) * ceil(max_len / BLOCK_TOKENS)
    num_blocks = most if budget is None else min(most, num_fitting)
    switches = config.optimizations
    return ThinkerSettings(
        max_num_seqs=stage.max_num_seqs,
        max_batched_tokens=stage.max_num_batched_tokens,
        max_model_len=max_len,
        block_size=BLOCK_TOKENS,
        kv_cache_blocks=num_blocks,
        use_prefix_cache=stage.enable_prefix_caching,
        use_graphs=switches.thinker_graph,
        use_triton=switches.fused_attention,
        graph_batches=_batches(stage.max_num_seqs),
        early_stop=switches.early_stop,
        num_audio_streams=num_streams,
        use_audio_batch=switches.audio_stream_batch,
    )


def _talker(config: DeployConfig, stage: StageConfig, model: ModelConfig, memory: MemoryFacts) -> TalkerSettings:
    decoder = model.talker.decoder
    max_positions = min(stage.max_model_len or decoder.max_positions, decoder.max_positions)
    slot_bytes = max_positions * position_bytes(decoder, memory.item_bytes)
    budget = _cache_bytes(stage, memory, memory.talker_weight_bytes)
    num_slots = stage.max_num_seqs if budget is None else min(stage.max_num_seqs, budget // slot_bytes)
    if num_slots < 1:
        raise DeployError(
            [
                Problem(
                    f"stage {stage.stage_id} ({stage.name})",
                    f"its share leaves no room for one cache of {slot_bytes >> 20} MiB: raise gpu_memory_utilization "
                    "or kv_cache_memory_bytes",
                )
            ]
        )
    num_sessions = config.duplex_session.max_sessions if config.session_mode == "duplex" else 0
    num_caches = num_slots * stage.num_replicas
    if num_sessions > num_caches:
        # A session keeps its cache between the seconds of a turn; one without would wait for another's turn to end.
        raise DeployError(
            [
                Problem(
                    f"stage {stage.stage_id} ({stage.name})",
                    f"has {num_caches} caches, duplex_session.max_sessions is {num_sessions}: raise max_num_seqs, or "
                    "lower max_sessions",
                )
            ]
        )
    switches = config.optimizations
    return TalkerSettings(
        num_slots=num_slots,
        max_queued_seqs=TalkerSettings().max_queued_seqs + num_sessions,  # sessions stay, requests come and go
        max_positions=max_positions,
        max_condition_tokens=max(stage.max_num_batched_tokens, max_positions),
        use_graphs=switches.talker_graph,
        use_triton=switches.fused_attention,
        use_fused_products=switches.fused_products,
        use_step_window=switches.talker_window_steps > 1,
        windows=tuple(steps for steps in _LADDER if steps <= switches.talker_window_steps),
        graph_batches=_batches(num_slots),
    )


def _code2wav(config: DeployConfig, stage: StageConfig) -> Code2WavSettings:
    switches, extra = config.optimizations, speech_extra(config)
    kept = extra.token2wav_runtime_prompt_cache_size + extra.token2wav_setup_cache_size
    return Code2WavSettings(
        num_slots=stage.max_num_seqs,
        num_steps=switches.cfm_steps,
        use_graphs=switches.cfm_graph and extra.cfm_max_graphs > 0,
        use_triton=switches.fused_dit,
        use_hift_graph=switches.hift_graph,
        use_tf32=switches.dit_precision == "tf32",
        graph_batches=_batches(stage.max_num_seqs),
        chunk_codes=switches.chunk_frames,
        max_waiting_streams=1024,  # the front bounds the requests in flight
        max_voices=kept + stage.max_num_seqs,  # those in use cannot leave, so they are not what is counted
    )


def _problems(config: DeployConfig) -> Iterator[Problem]:
    switches = config.optimizations
    allowed: dict[str, tuple[object, ...]] = {
        "talker_sampler": ("counter",),
        "ngram_speculation": ("off",),
        "cfm_tangent_stop": (0,),
        "adaln_table": (True,),
        "dit_precision": ("fp32", "tf32"),
        "cache_precision": ("fp32",),
        "hift_noise": ("counter",),
        "voice_template_cache": (True,),
        "first_chunk_frames": (CHUNK_IDS,),
        "chunk_frames": (CHUNK_IDS,),
    }
    for name, values in allowed.items():
        value = getattr(switches, name)
        if value not in values:
            wanted = " or ".join(str(item).lower() if isinstance(item, bool) else str(item) for item in values)
            yield Problem("optimizations", f"{name} is {value}; this engine supports {wanted}")
    video = config.stages[0].media_io_kwargs.video
    if video.fps not in (None, 1.0):
        yield Problem(
            "stage 0 (thinker)", f"media_io_kwargs.video.fps is {video.fps}; the model takes 1 frame a second"
        )
    if video.num_frames is not None and video.num_frames < MAX_MOMENTS:
        yield Problem(
            "stage 0 (thinker)",
            f"media_io_kwargs.video.num_frames is {video.num_frames}; the model's rule takes up to {MAX_MOMENTS}",
        )
    if not config.stages[0].enable_chunked_prefill:
        yield Problem("stage 0 (thinker)", "enable_chunked_prefill is false; long prompts are always cut, leave it out")
    extra = speech_extra(config)
    for name, only in (
        ("codec_left_context_frames", LOOKAHEAD_IDS),
        ("code2wav_min_batch_size", 1),
        ("code2wav_initial_batch_size", 0),
    ):
        if getattr(extra, name) != only:
            yield Problem("connectors", f"{name} is {getattr(extra, name)}; this engine supports {only}")


def thread_problems(config: DeployConfig) -> list[Problem]:
    """What stands against running all stages on threads of one process."""
    found = []
    for stage in config.stages:
        where = f"stage {stage.stage_id} ({stage.name})"
        if stage.num_replicas != 1:
            found.append(Problem(where, f"num_replicas is {stage.num_replicas}; one process runs one, use --processes"))
        if stage.tensor_parallel_size != 1:
            found.append(Problem(where, "tensor_parallel_size above 1 needs worker processes, use --processes"))
        if stage.devices != config.stages[0].devices:
            found.append(Problem(where, "its device differs from stage 0's; several devices need --processes"))
        if stage.env:
            found.append(Problem(where, "env is set per worker process; use --processes or the process's environment"))
    return found


def position_bytes(decoder: DecoderConfig, item_bytes: int) -> int:
    """Bytes of keys and values for one position of one sequence."""
    return 2 * decoder.num_layers * decoder.num_kv_heads * decoder.head_dim * item_bytes


def _cache_bytes(stage: StageConfig, memory: MemoryFacts, weight_bytes: int) -> int | None:
    """What a stage may spend on caches; None: as much as its rows need."""
    if stage.kv_cache_memory_bytes is not None:
        return stage.kv_cache_memory_bytes
    if memory.device_bytes is None:
        return None
    return max(0, int(memory.device_bytes * stage.gpu_memory_utilization) - weight_bytes)


def _batches(max_rows: int) -> tuple[int, ...]:
    """Batch sizes that get a graph: the usual ones, and the largest that can occur."""
    return tuple(sorted({size for size in _GRAPH_BATCHES if size < max_rows} | {max_rows}))
