"""What is served: the model's names, sizes and vocabulary, and how its requests are read."""

from dataclasses import dataclass

from antiphon.config.checkpoint import ImageConfig
from antiphon.config.deploy import DeployConfig, MediaLimits, VideoIO
from antiphon.core.handoff import Handoff
from antiphon.pipeline.omni_model import OmniModel
from antiphon.pipeline.speech import SPEECH_RATE_HZ
from antiphon.prompt.tokenizer import Tokenizer
from antiphon.serving.errors import NOT_FOUND, HttpError
from antiphon.serving.stage_params import StageParams


@dataclass(frozen=True, kw_only=True)
class ServedModel:
    """The front's side of a loaded model. `names` are accepted in requests, the first is answered."""

    names: tuple[str, ...]
    root: str  # what the operator called it
    created_s: int
    tokenizer: Tokenizer
    image_config: ImageConfig
    pool_step: int
    max_model_len: int
    has_speech: bool
    sampling: StageParams
    media_limits: MediaLimits
    video: VideoIO
    max_voice_s: float
    hand_off: str = "auto"  # span, stream, or by request
    is_tiny: bool
    speech_rate_hz: int = SPEECH_RATE_HZ

    def handoff(self, *, is_streamed: bool) -> Handoff:
        """How text reaches the Talker: a stream speaks while it writes, a whole answer is spoken in one span."""
        if self.hand_off == "auto":
            return Handoff.STREAM if is_streamed else Handoff.SPAN
        return Handoff(self.hand_off)

    def require(self, name: str | None) -> str:
        """The name to answer with. Raises HttpError for a name that is not served."""
        if name is not None and name not in self.names:
            raise HttpError(NOT_FOUND, f"The model {name[:128]!r} does not exist.", kind="NotFoundError", param="model")
        return self.names[0]


def describe_model(
    model: OmniModel,
    deploy: DeployConfig,
    *,
    root: str,
    names: tuple[str, ...],
    created_s: int,
    is_tiny: bool,
) -> ServedModel:
    """Put together what the front needs of *model* and *deploy*."""
    thinker, talker, code2wav = deploy.stages
    window_s = min((item.extra.ref_audio_max_seconds for item in deploy.connectors.values()), default=6.0)
    return ServedModel(
        names=names or (root,),
        root=root,
        created_s=created_s,
        tokenizer=model.tokenizer,
        image_config=model.image_config,
        pool_step=model.config.audio.pool_step,
        max_model_len=min(thinker.max_model_len or model.config.llm.max_positions, model.config.llm.max_positions),
        has_speech=model.talker is not None,
        sampling=(
            thinker.default_sampling_params,
            talker.default_sampling_params,
            code2wav.default_sampling_params,
        ),
        media_limits=thinker.limit_mm_per_prompt,
        video=thinker.media_io_kwargs.video,
        max_voice_s=window_s,
        is_tiny=is_tiny,
        hand_off=str(deploy.optimizations.hand_off),
    )
