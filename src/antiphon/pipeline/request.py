"""What the front asks of the pipeline: one prompt, how to answer it, and in which voice."""

import secrets
from dataclasses import dataclass

from antiphon.core.handoff import Handoff
from antiphon.core.sampling import MAX_SEED, SamplingParams
from antiphon.pipeline.voice_book import PreparedVoice
from antiphon.prompt.chat_prompt import ChatPrompt


@dataclass(frozen=True, kw_only=True)
class GenerationRequest:
    """A built prompt and how to answer it.

    Attributes:
        voice: None: text only, and neither Talker nor Code2Wav is touched.
        given: the answer itself: its tokens are forwarded and spoken as they are, and none is drawn.
    """

    request_id: str
    prompt: ChatPrompt
    sampling: tuple[SamplingParams, SamplingParams, SamplingParams]  # thinker, talker, code2wav
    voice: PreparedVoice | None = None
    handoff: Handoff = Handoff.SPAN
    given: tuple[int, ...] = ()

    @property
    def spoken_by(self) -> Handoff | None:
        """The hand-off; None if nothing is spoken."""
        return None if self.voice is None else self.handoff


def seed_of(params: SamplingParams) -> int:
    """The seed of a stage's draws: the request's, or a fresh one."""
    return secrets.randbelow(MAX_SEED) if params.seed is None else params.seed
