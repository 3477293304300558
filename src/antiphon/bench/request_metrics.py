"""The metrics of one request, from its record alone. Definitions are those of vLLM-Omni's benchmark client."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from antiphon.bench.continuity import underrun_s
from antiphon.bench.timeline import Answer, RequestRecord, TextArrival

TEXT_STAGE = "0"


@dataclass(frozen=True, kw_only=True)
class RequestMetrics:
    """Figures of one successful request, in seconds; None where the request gives no sample.

    Attributes:
        ttft_s: to the first event that adds a token.
        itl_s: one entry per token after the first.
        tpot_s: mean time of a token after the first.
        e2el_s: to the last event.
        audio_ttfp_s: to the first audio event, even one without sound.
        audio_rtf: time of the last event with sound ÷ seconds of audio, as the client saw it.
        audio_underrun_s: longest lack of a player that starts at the first sound.
    """

    ttft_s: float | None
    itl_s: tuple[float, ...]
    tpot_s: float | None
    e2el_s: float
    audio_ttfp_s: float | None
    audio_rtf: float | None
    audio_duration_s: float
    audio_underrun_s: float
    num_audio_frames: int
    prompt_tokens: int
    output_tokens: int


def measure(record: RequestRecord) -> RequestMetrics:
    """Compute the metrics of *record*, which must not have failed."""
    answer = record.answer
    with_tokens = [arrival for arrival in answer.texts if arrival.num_tokens]
    counted = sum(arrival.num_tokens for arrival in with_tokens)
    output_tokens = answer.usage.completion_tokens if answer.usage else counted
    prompt_tokens = answer.usage.prompt_tokens if answer.usage else 0
    itl_s, tpot_s = _token_times(answer, with_tokens, output_tokens)
    duration_s = sum(arrival.duration_s for arrival in answer.audios)
    last_sound_s = max((arrival.at_s for arrival in answer.audios if arrival.num_frames), default=0.0)
    return RequestMetrics(
        ttft_s=with_tokens[0].at_s if with_tokens else None,
        itl_s=itl_s,
        tpot_s=tpot_s,
        e2el_s=answer.e2e_s,
        audio_ttfp_s=answer.audios[0].at_s if answer.audios else None,
        audio_rtf=last_sound_s / duration_s if duration_s else None,
        audio_duration_s=duration_s,
        audio_underrun_s=underrun_s(answer.audios),
        num_audio_frames=sum(arrival.num_frames for arrival in answer.audios),
        prompt_tokens=prompt_tokens or record.prompt_len_tokens,
        output_tokens=output_tokens,
    )


def inter_token_s(arrivals: Sequence[TextArrival]) -> tuple[float, ...]:
    """Times between tokens. Tokens of the first event are 0 apart; those of a later one share the gap before it."""
    gaps: list[float] = []
    last_s: float | None = None
    for arrival in arrivals:
        if last_s is None:
            gaps += [0.0] * (arrival.num_tokens - 1)
        else:
            gaps += [(arrival.at_s - last_s) / arrival.num_tokens] * arrival.num_tokens
        last_s = arrival.at_s
    return tuple(gaps)


def _token_times(
    answer: Answer, with_tokens: Sequence[TextArrival], output_tokens: int
) -> tuple[tuple[float, ...], float | None]:
    gaps = inter_token_s(with_tokens)
    if any(gap > 0 for gap in gaps):
        return gaps, fmean(gaps) if output_tokens > 1 else None
    # The text came as one event, as it does from servers that speak only when the text is complete: the stage that
    # made it may tell its own times.
    native_gaps = _native_gaps_s(answer, output_tokens)
    native_tpot = answer.stage_metrics.get(TEXT_STAGE, {}).get("vllm_tpot_ms")
    native_tpot_s = float(native_tpot) / 1000 if isinstance(native_tpot, (int, float)) and output_tokens > 1 else 0.0
    if native_gaps or native_tpot_s > 0:
        return native_gaps or gaps, native_tpot_s if native_tpot_s > 0 else fmean(native_gaps)
    if not gaps and output_tokens > 1 and with_tokens and answer.texts[-1].at_s > with_tokens[0].at_s:
        return gaps, (answer.texts[-1].at_s - with_tokens[0].at_s) / (output_tokens - 1)
    return gaps, None


def _native_gaps_s(answer: Answer, output_tokens: int) -> tuple[float, ...]:
    """Times between tokens as the text stage lists them, or its mean for each token after the first."""
    native = answer.stage_metrics.get(TEXT_STAGE, {})
    for key in ("vllm_itl_ms_list", "vllm_itl_ms"):
        value = native.get(key)
        if isinstance(value, list):
            return tuple(float(gap) / 1000 for gap in value if isinstance(gap, (int, float)))
        if isinstance(value, (int, float)) and value > 0:
            return (float(value) / 1000,) * (output_tokens - 1)
    return ()
