"""Tokens of a whole session, in OpenBMB's spelling: its clients take the last figures for the sum."""

from typing import cast

from antiphon.wire.realtime.json_frame import JsonObject


class MapUsage:
    """Sums the usage of responses."""

    def __init__(self) -> None:
        self._input = self._output = self._audio_in = self._vision_in = self._audio_out = 0

    def add(self, usage: JsonObject) -> None:
        """*usage* of one response, as the session's own events show it."""
        into = cast("dict[str, int]", usage["input_token_details"])
        out = cast("dict[str, int]", usage["output_token_details"])
        self._input += cast(int, usage["input_tokens"])
        self._output += cast(int, usage["output_tokens"])
        self._audio_in += into["audio_tokens"]
        self._vision_in += into["image_tokens"]
        self._audio_out += out["audio_tokens"]

    def shown(self) -> JsonObject:
        return {
            "input_tokens": self._input,
            "output_tokens": self._output,
            "total_tokens": self._input + self._output,
            "input_tokens_details": {"audio_tokens": self._audio_in, "vision_tokens": self._vision_in},
            "output_tokens_details": {"audio_tokens": self._audio_out},
        }
