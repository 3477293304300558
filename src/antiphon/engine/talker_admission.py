"""What the Talker engine refuses: jobs it could not honour, and conditions that would break a launch for others."""

from antiphon.config.checkpoint import TalkerConfig
from antiphon.core.errors import ConfigError, PromptError, SamplingError
from antiphon.engine.talker_job import TalkerCondition, TalkerJob, TalkerMode
from antiphon.layers.code_rows import RING_CODES


def check_job(job: TalkerJob, config: TalkerConfig) -> None:
    """Refuse a job whose rules the device cannot follow.

    Raises:
        SamplingError: a parameter is out of range.
        ConfigError: the checkpoint's way of streaming has no rule here.
    """
    if job.sampling.penalty_window > RING_CODES:
        raise SamplingError(f"{job.seq_id}: penalty_window is {job.sampling.penalty_window}, at most {RING_CODES}")
    if job.max_codes < 1:
        raise SamplingError(f"{job.seq_id}: max_codes is {job.max_codes}, at least 1")
    if not 0 <= job.seed < 2**63:
        raise SamplingError(f"{job.seq_id}: seed is {job.seed}, expected 0 … 2^63 − 1")
    if job.mode is TalkerMode.STREAM and config.attention_type != "full_attention":
        raise ConfigError(
            f"talker attention_type {config.attention_type!r}: streams here are spoken with full_attention only; "
            "use span hand-off"
        )


def check_condition(seq_id: str, condition: TalkerCondition, config: TalkerConfig) -> None:
    """Refuse a condition that cannot be embedded.

    Raises:
        PromptError: an id, a shape or a limit is wrong.
    """
    expected = (len(condition.ids), config.llm_hidden_size)
    if tuple(condition.hidden.shape) != expected:
        raise PromptError(f"{seq_id}: hidden rows are {list(condition.hidden.shape)}, expected {list(expected)}")
    # An id outside the table would stop the whole device, not one request.
    strange = next((token for token in condition.ids if not 0 <= token < config.num_text_ids), None)
    if strange is not None:
        raise PromptError(f"{seq_id}: text id {strange} is not one of the Talker's {config.num_text_ids}")
    if condition.max_draws is not None and condition.max_draws < 1:
        raise PromptError(f"{seq_id}: max_draws is {condition.max_draws}, at least 1")
