"""One stream of speech at batch 1: a whole condition at once, or one duplex unit after another (3.2, 3.3, 3.5)."""

from dataclasses import dataclass
from enum import Enum

from torch import Tensor

from antiphon.core.errors import ContextLengthError
from antiphon.engine.noise import NoiseSource
from antiphon.engine.talker_sampling import TalkerSampling, next_code
from antiphon.models.talker.talker import Talker
from antiphon.pipeline.eager.talker_context import TalkerContext


class CodeStop(Enum):
    """Why the codes of one condition ended."""

    EOS = "eos"
    LIMIT = "limit"  # as many as asked for
    CONTEXT = "context"  # the model's positions are used up: the speech is incomplete


@dataclass(frozen=True)
class SpokenCodes:
    """Codec ids of one condition, without the end code. `has_rolled_over`: the cache was rebuilt before it."""

    codes: tuple[int, ...]
    stop: CodeStop
    has_rolled_over: bool = False


class TalkerSequence:
    """The Talker of one response or one duplex session, with its cache carried from unit to unit of a turn."""

    UNIT_DRAWS = 26  # of which 25 are returned: 1 s

    def __init__(self, talker: Talker, noise: NoiseSource, *, sampling: TalkerSampling | None = None) -> None:
        self.talker = talker
        self.noise = noise
        self.sampling = sampling or TalkerSampling()
        self.context = TalkerContext(talker)
        self._previous: tuple[Tensor, list[int]] | None = None

    @property
    def position(self) -> int:
        """Where the next condition starts; 0 at the start of a turn."""
        return self.context.position

    def reset(self) -> None:
        """End the turn: no cache, position 0."""
        self.context.restart()
        self._previous = None

    def generate(self, condition: Tensor, *, min_codes: int = 50, max_draws: int = 2048) -> SpokenCodes:
        """Speak one complete condition [n, H] (closed by text_eos and audio_bos) from an empty cache.

        Draws until the end code, which is masked for the first *min_codes* draws, or for *max_draws* draws, of which
        the last is lost (reference behaviour). Fewer draws if the positions end first.

        Raises:
            ContextLengthError: the condition leaves no position for a code.
        """
        self.reset()
        max_positions = self.talker.config.decoder.max_positions
        num_free = max_positions - condition.shape[0]
        if num_free < 1:
            raise ContextLengthError(
                f"talker: a condition of {condition.shape[0]} tokens fills the {max_positions} positions; "
                "speak a shorter text"
            )
        codes, is_ended = self._draw(condition, min(max_draws, num_free), min_codes, with_filters=True)
        stop = CodeStop.EOS if is_ended else CodeStop.LIMIT if max_draws <= num_free else CodeStop.CONTEXT
        return SpokenCodes(tuple(codes), stop)

    def speak_unit(self, condition: Tensor, *, ends_turn: bool) -> SpokenCodes:
        """Speak one duplex unit: 25 codes, fewer only in the first unit of a turn and in the one that ends it.

        *condition* [n, H] is closed by audio_bos. The turn's state is dropped after its last unit.
        """
        is_first = self.position == 0
        spoken = self.generate_chunk(condition, min_codes=0 if is_first or ends_turn else self.UNIT_DRAWS)
        if ends_turn:
            self.reset()
        return spoken

    def generate_chunk(self, condition: Tensor, *, min_codes: int, max_draws: int = UNIT_DRAWS) -> SpokenCodes:
        """Speak one condition [n, H] behind what the cache holds; the penalty sees this chunk's codes only.

        Draws until the end code (masked for the first *min_codes* draws) or *max_draws* draws. The last draw is neither
        returned nor fed, so afterwards the cache holds exactly the condition and the returned codes. Rolls the context
        over first if it could run out of positions.
        """
        has_rolled_over = not self.context.has_room(condition.shape[0] + max_draws)
        prompt = self.context.roll_over(condition, max_draws, self._previous) if has_rolled_over else condition
        codes, is_ended = self._draw(prompt, max_draws, min_codes, with_filters=False)
        self._previous = (condition, codes)
        return SpokenCodes(tuple(codes), CodeStop.EOS if is_ended else CodeStop.LIMIT, has_rolled_over)

    def _draw(self, prompt: Tensor, max_draws: int, min_codes: int, *, with_filters: bool) -> tuple[list[int], bool]:
        eos_id = self.talker.config.codec_eos_id
        logits = self.context.feed(prompt)
        codes: list[int] = []
        for step in range(max_draws):
            masked_id = eos_id if step < min_codes else None
            code = next_code(logits, codes, self.sampling, self.noise, with_filters=with_filters, masked_id=masked_id)
            if code == eos_id:
                return codes, True
            if step + 1 < max_draws:
                codes.append(code)
                logits = self.context.feed_code(code)
        return codes, False
