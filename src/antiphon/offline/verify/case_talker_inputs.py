"""What the replays of the Talker share: the loaded stage and the recorded samplers."""

from collections.abc import Mapping

from antiphon.core.errors import CheckpointError
from antiphon.engine.noise import InverseCdf, NoiseSource, Scripted, SeededNoise
from antiphon.models.talker.talker import Talker
from antiphon.offline.verify.context import VerifyContext

META = "06_talker/meta.json"
UNIFORMS = ("06_talker/generate.safetensors", "inverse_cdf.u")


def loaded_talker(context: VerifyContext) -> Talker:
    """The Talker of the recorded checkpoint."""
    talker = context.model.talker
    if talker is None:
        raise CheckpointError("the recorded checkpoint has no talker")
    return talker


def script(recorded: Mapping[str, int]) -> dict[int, int]:
    """Draw number → id, from JSON whose keys are strings."""
    return {int(draw): code for draw, code in recorded.items()}


def recorded_noise(context: VerifyContext, sampler: str, run: str) -> NoiseSource | None:
    """The sampler of one recorded run; None for a sampler this version does not know.

    Args:
        context: where scripts, seeds and uniform numbers are recorded.
        sampler: its recorded name.
        run: what it sampled for: generate, generate_chunk or streaming.
    """
    if sampler == "greedy":
        return Scripted({})
    if sampler in ("scripted", "scripted_eos"):
        return Scripted(script(context.golden.json(META)["scripts"][f"{run}_{sampler}"]))
    if sampler == "eos_at_first_step":
        return Scripted({0: loaded_talker(context).config.codec_eos_id})
    if sampler == "inverse_cdf":
        return InverseCdf(context.golden.tensor(*UNIFORMS).tolist())
    if sampler == "torch_seed":
        return SeededNoise(context.golden.inputs["torch_seed"][f"06_talker/{run}"])
    return None
