"""Tokens and times: what units took, summed for a response and for the session."""

from dataclasses import dataclass

from antiphon.realtime.engine import UnitDone
from antiphon.realtime.limits import SPEECH_RATE_HZ
from antiphon.wire.realtime.json_frame import JsonObject

AUDIO_TOKENS_PER_UNIT = 10
CODEC_FRAME_S = 0.04


@dataclass
class Usage:
    """Sums over units; reset when a response takes them."""

    num_units: int = 0
    num_input_tokens: int = 0
    num_text_tokens: int = 0
    num_codec_frames: int = 0
    thinker_s: float = 0.0
    talker_s: float = 0.0
    code2wav_s: float = 0.0
    time_to_first_text_s: float | None = None
    time_to_first_audio_s: float | None = None

    @property
    def num_output_tokens(self) -> int:
        return self.num_text_tokens + self.num_codec_frames

    def add(self, unit: UnitDone) -> None:
        self.num_units += 1
        self.num_input_tokens += unit.num_input_tokens
        self.num_text_tokens += unit.num_text_tokens
        self.num_codec_frames += unit.num_codec_frames
        self.thinker_s += unit.thinker_s
        self.talker_s += unit.talker_s
        self.code2wav_s += unit.code2wav_s
        if self.time_to_first_text_s is None:
            self.time_to_first_text_s = unit.time_to_first_text_s
        if self.time_to_first_audio_s is None:
            self.time_to_first_audio_s = unit.time_to_first_audio_s

    def shown(self) -> JsonObject:
        audio_in = min(self.num_units * AUDIO_TOKENS_PER_UNIT, self.num_input_tokens)
        return {
            "total_tokens": self.num_input_tokens + self.num_output_tokens,
            "input_tokens": self.num_input_tokens,
            "output_tokens": self.num_output_tokens,
            "input_token_details": {
                "text_tokens": self.num_input_tokens - audio_in,
                "audio_tokens": audio_in,
                "image_tokens": 0,
                "cached_tokens": 0,
                "cached_tokens_details": {"text_tokens": 0, "audio_tokens": 0, "image_tokens": 0},
            },
            "output_token_details": {"text_tokens": self.num_text_tokens, "audio_tokens": self.num_codec_frames},
        }

    def stage_metrics(self, num_samples: int) -> JsonObject:
        """As the reference names them, cumulative for the response; stages are strings."""
        audio_s = num_samples / SPEECH_RATE_HZ
        per_token_ms = 1000 * self.thinker_s / self.num_text_tokens if self.num_text_tokens else 0.0
        thinker: JsonObject = {
            "num_tokens_in": self.num_input_tokens,
            "num_tokens_out": self.num_text_tokens,
            "vllm_ttft_ms": _ms(self.time_to_first_text_s),
            "vllm_tpot_ms": round(per_token_ms, 3),
            "vllm_itls_ms": [],
            "stage_gen_time_ms": _ms(self.thinker_s),
            "serving_time_to_first_output_ms": _ms(self.time_to_first_text_s),
            "final_output_type": "text",
            "output_unit_type": "token",
        }
        talker: JsonObject = {
            "num_tokens_in": self.num_text_tokens,
            "num_tokens_out": self.num_codec_frames,
            "stage_gen_time_ms": _ms(self.talker_s),
            "final_output_type": "audio",
            "output_unit_type": "codec_frame",
        }
        code2wav: JsonObject = {
            "stage_gen_time_ms": _ms(self.code2wav_s),
            "serving_time_to_first_output_ms": _ms(self.time_to_first_audio_s),
            "audio_generated_frames": num_samples,
            "audio_duration_s": round(audio_s, 3),
            "final_output_type": "audio",
            "output_unit_type": "sample",
        }
        return {"0": thinker, "1": talker, "2": code2wav}


def _ms(seconds: float | None) -> float:
    return 0.0 if seconds is None else round(1000 * seconds, 3)
