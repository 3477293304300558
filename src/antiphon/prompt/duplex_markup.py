"""Texts and ids with a fixed meaning in spoken sessions: how a duplex session begins, what spoken text may not contain.

Source: model specification 5.1 (session start), 5.3 and 2.9 (forbidden ids).
"""

from dataclasses import dataclass

from antiphon.prompt.segments import Markup, Plain
from antiphon.prompt.tokenizer import Tokenizer

DEFAULT_INSTRUCTIONS = "Streaming Omni Conversation."
DEFAULT_PREVIOUS_MARKER = "\n\nprevious: "  # stands before the kept text of units that left the context window

# Punctuation that cannot be spoken. Full-width ones are no single vocabulary strings, so the reference forbids `<unk>`
# in their place and they can still be sampled: kept as it is, because it changes what the model says.
SIMPLEX_FORBIDDEN = tuple(":：；#“”‘’@*【】「」()（）[]&/$")


@dataclass(frozen=True)
class SessionStart:
    """Ids around the embeddings of the reference recording, or around nothing without one."""

    prefix: list[int]
    suffix: list[int]


def session_start(
    tokenizer: Tokenizer,
    instructions: str = DEFAULT_INSTRUCTIONS,
    *,
    has_reference: bool,
    first_text: str | None = None,
    protect_text: bool = True,
) -> SessionStart:
    """The system part of a duplex session; no newline ends it.

    Args:
        instructions: the system text.
        has_reference: embeddings of a reference recording will stand between prefix and suffix.
        first_text: a typed message that the conversation begins with.
        protect_text: keep what looks like a special token as text; False parses it, as the reference does.
    """

    def given(text: str) -> Markup | Plain:
        return Plain(text) if protect_text else Markup(text)

    prefix: list[Markup | Plain] = [Markup("<|im_start|>system\n"), given(instructions)]
    suffix: list[Markup | Plain] = [Markup("<|im_end|>")]
    if has_reference:
        prefix.append(Markup("\n<|audio_start|>"))
        suffix.insert(0, Markup("<|audio_end|>"))
    if first_text is not None:
        suffix += [
            Markup("\n<|im_start|>user\n"),
            given(first_text),
            Markup("<|im_end|>\n<|im_start|>assistant\n"),
        ]
    return SessionStart(tokenizer.encode_segments(prefix), tokenizer.encode_segments(suffix))


def duplex_forbidden_ids(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Ids that a unit's second draw may not give; `<|chunk_eos|>` is among them because only the first draw may."""
    return (tokenizer.special.tts_pad, *tokenizer.bad_ids, tokenizer.special.chunk_eos)


def simplex_forbidden_ids(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Ids that the turn-based speech path forbids: one per literal, then the checkpoint's list. Ids may repeat."""
    return (*(tokenizer.id(literal) for literal in SIMPLEX_FORBIDDEN), *tokenizer.bad_ids)
