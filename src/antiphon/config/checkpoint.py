"""What a MiniCPM-o 4.5 checkpoint says about itself, as frozen types: every size the code uses comes from here.

Source of the fields: model specification, sections 1.2, 1.3, 1.6 and 4.3. Values that shape the arithmetic and that
this code does not implement (another activation, tied embeddings, …) are refused here, by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from antiphon.core.errors import CheckpointError

Raw = Mapping[str, object]
T = TypeVar("T", int, float, str, bool)


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """One Llama-style decoder stack: the Thinker's Qwen3 (with q/k norms) or the Talker's Llama."""

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    max_positions: int
    has_qk_norm: bool


@dataclass(frozen=True, kw_only=True)
class VisionConfig:
    """The SigLIP encoder. `table_side` is the side of its square position table (70 in the real model)."""

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    patch_size: int
    num_channels: int
    table_side: int
    layer_norm_eps: float
    batch_size: int
    drop_last_layer: bool


@dataclass(frozen=True, kw_only=True)
class AudioConfig:
    """The whisper-style audio encoder with its pooling; `chunk_s` is the offline attention block in seconds."""

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_mel_bins: int
    max_positions: int
    pool_step: int
    chunk_s: float


@dataclass(frozen=True, kw_only=True)
class TalkerConfig:
    """The Talker: decoder sizes, vocabularies, and the rules of its streaming modes."""

    decoder: DecoderConfig
    llm_hidden_size: int
    num_codec_ids: int  # the last one ends the speech
    num_text_ids: int
    audio_bos_id: int
    text_eos_id: int
    normalize_projected: bool
    attention_type: str
    window_chunks: int
    recomputed_chunks: int
    window_tokens: int

    @property
    def codec_eos_id(self) -> int:
        return self.num_codec_ids - 1


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """`config.json`: the Thinker's parts and the Talker."""

    vocab_size: int
    llm: DecoderConfig
    vision: VisionConfig
    audio: AudioConfig
    talker: TalkerConfig
    num_queries: int  # rows of one image or slice in the Thinker's input
    dtype: str
    bos_token_id: int
    eos_token_id: int


@dataclass(frozen=True, kw_only=True)
class ImageConfig:
    """`preprocessor_config.json`: how an image is sliced, normalised and written into the prompt."""

    max_slices: int
    scale_resolution: int
    patch_size: int
    num_queries: int
    use_image_id: bool
    slice_mode: bool
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class FlowEncoderConfig:
    """The up-sampling conformer in front of the flow model."""

    input_size: int
    output_size: int
    num_heads: int
    linear_units: int
    num_blocks: int
    num_up_blocks: int
    up_stride: int
    lookahead: int


@dataclass(frozen=True, kw_only=True)
class DiTConfig:
    """The flow model's estimator."""

    in_channels: int
    out_channels: int
    hidden_size: int
    depth: int
    num_heads: int
    head_dim: int
    mlp_ratio: float


@dataclass(frozen=True, kw_only=True)
class FlowConfig:
    """`assets/token2wav/flow.yaml`: codec ids to mel."""

    num_codec_ids: int
    embedding_size: int
    num_mel_bins: int
    speaker_size: int
    cfg_rate: float
    encoder: FlowEncoderConfig
    dit: DiTConfig


def _get(raw: Raw, key: str, kind: type[T], where: str, default: T | None = None) -> T:
    value = raw.get(key, default)
    if value is None:
        raise CheckpointError(f"{where}: field {key!r} is missing")
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise CheckpointError(f"{where}: field {key!r} is {value!r}, expected {kind.__name__}")
    return value


def _section(raw: Raw, key: str, where: str) -> Raw:
    value = raw.get(key)
    if not isinstance(value, Mapping):
        raise CheckpointError(f"{where}: section {key!r} is missing")
    return value


def _require(raw: Raw, key: str, expected: object, where: str) -> None:
    """Refuse a value that would change the arithmetic; a field that is left out has the expected value."""
    value = raw.get(key, expected)
    if value != expected:
        raise CheckpointError(f"{where}: {key} is {value!r}; only {expected!r} is supported")


def parse_model_config(raw: Raw, where: str = "config.json") -> ModelConfig:
    """Read `config.json`. Raises CheckpointError naming the field, also for another model or version."""
    architectures = raw.get("architectures")
    if architectures != ["MiniCPMO"]:
        raise CheckpointError(f"{where}: architectures is {architectures!r}; only ['MiniCPMO'] is supported")
    version = raw.get("version")
    if version != "4.5":  # 2.6 has the same architecture and model_type; the field is a string
        raise CheckpointError(
            f"{where}: version is {version!r}; only '4.5' is supported (2.6 has another architecture)"
        )
    for key, expected in (
        ("hidden_act", "silu"),
        ("attention_bias", False),
        ("tie_word_embeddings", False),
        ("rope_scaling", None),
        ("use_sliding_window", False),
    ):
        _require(raw, key, expected, where)
    llm = DecoderConfig(
        hidden_size=_get(raw, "hidden_size", int, where),
        intermediate_size=_get(raw, "intermediate_size", int, where),
        num_layers=_get(raw, "num_hidden_layers", int, where),
        num_heads=_get(raw, "num_attention_heads", int, where),
        num_kv_heads=_get(raw, "num_key_value_heads", int, where),
        head_dim=_get(raw, "head_dim", int, where, 128),
        rms_norm_eps=_get(raw, "rms_norm_eps", float, where),
        # A dropped field would mean 10,000 to a Qwen3 loader: plausible but degraded text. So it is required.
        rope_theta=_get(raw, "rope_theta", float, where),
        max_positions=_get(raw, "max_position_embeddings", int, where),
        has_qk_norm=True,
    )
    return ModelConfig(
        vocab_size=_get(raw, "vocab_size", int, where),
        llm=llm,
        vision=_parse_vision(raw, where),
        audio=_parse_audio(raw, where),
        talker=_parse_talker(_section(raw, "tts_config", where), f"{where}: tts_config"),
        num_queries=_get(raw, "query_num", int, where),
        dtype=_get(raw, "torch_dtype", str, where, "bfloat16"),
        bos_token_id=_get(raw, "bos_token_id", int, where),
        eos_token_id=_get(raw, "eos_token_id", int, where),
    )


def _parse_vision(root: Raw, where: str) -> VisionConfig:
    raw = _section(root, "vision_config", where)
    inner = f"{where}: vision_config"
    _require(raw, "hidden_act", "gelu_pytorch_tanh", inner)
    patch_size = _get(raw, "patch_size", int, inner)
    return VisionConfig(
        hidden_size=_get(raw, "hidden_size", int, inner),
        intermediate_size=_get(raw, "intermediate_size", int, inner),
        num_layers=_get(raw, "num_hidden_layers", int, inner),
        num_heads=_get(raw, "num_attention_heads", int, inner),
        patch_size=patch_size,
        num_channels=_get(raw, "num_channels", int, inner, 3),
        table_side=_get(raw, "image_size", int, inner) // patch_size,
        layer_norm_eps=_get(raw, "layer_norm_eps", float, inner, 1e-6),
        batch_size=_get(root, "vision_batch_size", int, where, 16),
        # The upstream class default is True; the shipped file says false. Missing means the class default.
        drop_last_layer=_get(root, "drop_vision_last_layer", bool, where, True),
    )


def _parse_audio(root: Raw, where: str) -> AudioConfig:
    raw = _section(root, "audio_config", where)
    inner = f"{where}: audio_config"
    _require(raw, "activation_function", "gelu", inner)
    _require(raw, "scale_embedding", False, inner)
    return AudioConfig(
        hidden_size=_get(raw, "d_model", int, inner),
        intermediate_size=_get(raw, "encoder_ffn_dim", int, inner),
        num_layers=_get(raw, "encoder_layers", int, inner),
        num_heads=_get(raw, "encoder_attention_heads", int, inner),
        num_mel_bins=_get(raw, "num_mel_bins", int, inner, 80),
        max_positions=_get(raw, "max_source_positions", int, inner, 1500),
        pool_step=_get(root, "audio_pool_step", int, where, 5),
        chunk_s=_get(root, "audio_chunk_length", float, where, 1.0),
    )


def _parse_talker(raw: Raw, where: str) -> TalkerConfig:
    for key, expected in (
        ("backbone_model", "llama"),
        ("condition_type", "hidden_text_merge"),
        ("hidden_act", "silu"),
        ("num_vq", 1),
        ("projector_type", "mlp"),
        ("attention_bias", False),
        ("audio_tokenizer_type", "s3tokenizer"),
    ):
        _require(raw, key, expected, where)
    hidden_size = _get(raw, "hidden_size", int, where)
    num_heads = _get(raw, "num_attention_heads", int, where)
    attention_type = _get(raw, "attention_type", str, where)  # the class default is another one than the file's
    known = ("full_attention", "sliding_window", "sliding_recompute", "reindex")
    if attention_type not in known:
        raise CheckpointError(f"{where}: attention_type is {attention_type!r}; known: {', '.join(known)}")
    return TalkerConfig(
        decoder=DecoderConfig(
            hidden_size=hidden_size,
            intermediate_size=_get(raw, "intermediate_size", int, where),
            num_layers=_get(raw, "num_hidden_layers", int, where),
            num_heads=num_heads,
            num_kv_heads=_get(raw, "num_key_value_heads", int, where),
            head_dim=_get(raw, "head_dim", int, where, hidden_size // num_heads),
            rms_norm_eps=_get(raw, "rms_norm_eps", float, where, 1e-6),
            rope_theta=_get(raw, "rope_theta", float, where, 10_000.0),
            max_positions=_get(raw, "max_position_embeddings", int, where),
            has_qk_norm=False,
        ),
        llm_hidden_size=_get(raw, "llm_hidden_size", int, where),
        num_codec_ids=_get(raw, "num_audio_tokens", int, where),  # the class default (4097) is not this model's
        num_text_ids=_get(raw, "num_text_tokens", int, where),
        audio_bos_id=_get(raw, "audio_bos_token_id", int, where),
        text_eos_id=_get(raw, "text_eos_token_id", int, where),
        normalize_projected=_get(raw, "normalize_projected_hidden", bool, where),
        attention_type=attention_type,
        window_chunks=_get(raw, "window_size", int, where, 2),
        recomputed_chunks=_get(raw, "recomputed_chunks", int, where, 1),
        window_tokens=_get(raw, "streaming_sliding_window_audio_window_size", int, where, 300),
    )


def parse_image_config(raw: Raw, where: str = "preprocessor_config.json") -> ImageConfig:
    """Read `preprocessor_config.json`; its `max_slice_nums` (9) differs from `config.json`'s (1) on purpose."""

    def channels(key: str) -> tuple[float, float, float]:
        value = raw.get(key, [0.5, 0.5, 0.5])
        if not isinstance(value, list) or len(value) != 3 or not all(isinstance(x, (int, float)) for x in value):
            raise CheckpointError(f"{where}: field {key!r} is {value!r}, expected three numbers")
        return (float(value[0]), float(value[1]), float(value[2]))

    return ImageConfig(
        max_slices=_get(raw, "max_slice_nums", int, where, 9),
        scale_resolution=_get(raw, "scale_resolution", int, where, 448),
        patch_size=_get(raw, "patch_size", int, where, 14),
        num_queries=_get(raw, "image_feature_size", int, where, 64),
        use_image_id=_get(raw, "use_image_id", bool, where, True),
        slice_mode=_get(raw, "slice_mode", bool, where, True),
        mean=channels("norm_mean"),
        std=channels("norm_std"),
    )


def parse_flow_config(raw: Raw, where: str = "flow.yaml") -> FlowConfig:
    """Read the plain data of `flow.yaml` (see `config.flow_yaml`)."""
    flow = _section(raw, "flow", where)
    encoder, decoder = _section(flow, "encoder", where), _section(flow, "decoder", where)
    estimator = _section(decoder, "estimator", where)
    for section, key, expected in (
        (encoder, "input_layer", "linear"),
        (encoder, "pos_enc_layer_type", "rel_pos_espnet"),
        (encoder, "selfattention_layer_type", "rel_selfattn"),
        (encoder, "key_bias", True),
        (encoder, "normalize_before", True),
        (flow, "output_type", "mel"),
    ):
        _require(section, key, expected, where)
    return FlowConfig(
        num_codec_ids=_get(flow, "vocab_size", int, where),
        embedding_size=_get(flow, "input_size", int, where),
        num_mel_bins=_get(flow, "output_size", int, where),
        speaker_size=_get(flow, "spk_embed_dim", int, where),
        cfg_rate=_get(decoder, "inference_cfg_rate", float, where),
        encoder=FlowEncoderConfig(
            input_size=_get(encoder, "input_size", int, where),
            output_size=_get(encoder, "output_size", int, where),
            num_heads=_get(encoder, "attention_heads", int, where),
            linear_units=_get(encoder, "linear_units", int, where),
            num_blocks=_get(encoder, "num_blocks", int, where),
            num_up_blocks=_get(encoder, "num_up_blocks", int, where),
            up_stride=_get(encoder, "up_stride", int, where),
            lookahead=_get(encoder, "pre_lookahead_len", int, where),
        ),
        dit=DiTConfig(
            in_channels=_get(estimator, "in_channels", int, where),
            out_channels=_get(estimator, "out_channels", int, where),
            hidden_size=_get(estimator, "hidden_size", int, where),
            depth=_get(estimator, "depth", int, where),
            num_heads=_get(estimator, "num_heads", int, where),
            head_dim=_get(estimator, "head_dim", int, where),
            mlp_ratio=_get(estimator, "mlp_ratio", float, where),
        ),
    )
