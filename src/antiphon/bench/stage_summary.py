"""What a server tells of its own stages, over all requests of a level."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from antiphon.bench.percentiles import Distribution, describe
from antiphon.bench.timeline import StageMetrics

DURATION_KEY = "stage_gen_time_ms"
# Keys of a stage's figures to how tables call them; chunk stages have time to first chunk and time per chunk.
_FIGURES = {
    DURATION_KEY: "Stage duration (ms)",
    "serving_time_to_first_output_ms": "Time to first output (ms)",
    "time_per_output_unit_ms": "Time per output unit (ms)",
    "inter_output_latency_ms": "Inter-output latency (ms)",
    "vllm_ttft_ms": "Engine TTFT (ms)",
    "vllm_tpot_ms": "Engine TPOT (ms)",
    "num_tokens_in": "Tokens in",
    "num_tokens_out": "Tokens out",
    "audio_duration_s": "Audio duration (s)",
    "rx_in_flight_time_ms": "Transfer in flight (ms)",
}


@dataclass(frozen=True, kw_only=True)
class StageSummary:
    """Distributions of one stage by label; a figure that no request has is absent."""

    figures: Mapping[str, Distribution]

    @property
    def duration_ms(self) -> Distribution | None:
        return self.figures.get(_FIGURES[DURATION_KEY])


def summarise_stages(answers: Sequence[StageMetrics], percents: Sequence[float]) -> dict[str, StageSummary]:
    """By stage id, in order; empty if no answer carries stage metrics."""
    stages: dict[str, StageSummary] = {}
    for stage in sorted({stage for answer in answers for stage in answer}):
        figures: dict[str, Distribution] = {}
        for key, label in _FIGURES.items():
            values = [
                float(value)
                for answer in answers
                if isinstance(value := answer.get(stage, {}).get(key), (int, float)) and not isinstance(value, bool)
            ]
            if (found := describe(values, (50, *percents))) is not None:
                figures[label] = found
        stages[stage] = StageSummary(figures=figures)
    return stages
