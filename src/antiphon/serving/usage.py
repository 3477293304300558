"""Token counts and stage timings of an answer, as the wire has them."""

from antiphon.core.outputs import FinishReason, RequestMetrics
from antiphon.pipeline.events import Finished
from antiphon.pipeline.speech import SPEECH_RATE_HZ
from antiphon.wire.reply import CompletionTokensDetails, PromptTokensDetails, Usage


def usage_of(finished: Finished, *, has_prompt_details: bool) -> Usage:
    """Counts of the Thinker; codec frames stand beside them."""
    num_prompt, num_text = finished.metrics.num_prompt_tokens, finished.metrics.num_text_tokens
    usage = Usage(
        prompt_tokens=num_prompt,
        completion_tokens=num_text,
        total_tokens=num_prompt + num_text,
        completion_tokens_details=CompletionTokensDetails(
            text_tokens=num_text, audio_tokens=finished.metrics.num_codec_frames
        ),
    )
    if has_prompt_details:
        usage.prompt_tokens_details = PromptTokensDetails(cached_tokens=finished.metrics.num_cached_tokens)
    return usage


def finish_reason(finished: Finished) -> str:
    """`length` if text or speech was cut off."""
    is_cut = FinishReason.LENGTH in (finished.finish_reason, finished.speech_finish_reason)
    return FinishReason.LENGTH.value if is_cut else FinishReason.STOP.value


def stage_metrics(metrics: RequestMetrics, *, speaks: bool, output_type: str) -> dict[str, object]:
    """The timeline of one answer, in the reference's keys. Times of a stage count from the start of the request."""
    thinker: dict[str, object] = {
        "num_tokens_in": metrics.num_prompt_tokens,
        "num_tokens_out": metrics.num_text_tokens,
        "stage_gen_time_ms": _ms(metrics.text_finished_s),
        "output_unit_type": "text",
        "output_unit_count": metrics.num_text_tokens,
        "serving_time_to_first_output_ms": _ms(metrics.time_to_first_text_s),
        "vllm_ttft_ms": _ms(metrics.time_to_first_text_s),
        "vllm_tpot_ms": _tpot_ms(metrics),
        "final_output_type": "text",
    }
    stages: dict[str, dict[str, object]] = {"0": thinker}
    if speaks:
        stages["1"] = {
            "num_tokens_in": metrics.num_text_tokens,
            "num_tokens_out": metrics.num_codec_frames,
            "output_unit_type": "stream",
            "output_unit_count": metrics.num_codec_frames,
        }
        stages["2"] = {
            "num_tokens_in": metrics.num_codec_frames,
            "stage_gen_time_ms": _ms(metrics.total_s),
            "output_unit_type": "audio",
            "serving_time_to_first_output_ms": _ms(metrics.time_to_first_audio_s),
            "audio_generated_frames": round(metrics.audio_duration_s * SPEECH_RATE_HZ),
            "audio_sample_rate": SPEECH_RATE_HZ,
            "audio_duration_s": metrics.audio_duration_s,
            "audio_rtf": metrics.rtf,
            "final_output_type": "audio",
        }
    return {
        "stage_metrics": stages,
        "stage_id": 2 if speaks else 0,
        "final_output_type": output_type,
        "num_tokens_in": metrics.num_prompt_tokens,
        "num_tokens_out": metrics.num_text_tokens,
    }


def _tpot_ms(metrics: RequestMetrics) -> float | None:
    if metrics.time_to_first_text_s is None or metrics.num_text_tokens < 2:
        return None
    return _ms((metrics.text_finished_s - metrics.time_to_first_text_s) / (metrics.num_text_tokens - 1))


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
