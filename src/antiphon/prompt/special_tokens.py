"""The tokens with a fixed meaning: their names, and the ids the real vocabulary gives them.

Source: model specification 1.7. The order is that of the real vocabulary, where they follow the ordinary tokens without
a gap; a smaller vocabulary keeps names and order but has other ids, so ids are always looked up by name.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields

from antiphon.core.errors import CheckpointError


def _bars(words: str) -> list[str]:
    return [f"<|{word}|>" for word in words.split()]


def _pairs(words: str) -> list[str]:
    return [tag for word in words.split() for tag in (f"<{word}>", f"</{word}>")]


# Parsed like the special ones, but kept when text is decoded without special tokens.
VISIBLE_TOKENS = (
    *_pairs("tool_call"),
    *_bars("fim_prefix fim_middle fim_suffix fim_pad repo_name file_sep"),
    *_pairs("tool_response think"),
)

ADDED_TOKENS = (
    *_bars("endoftext im_start im_end object_ref_start object_ref_end box_start box_end quad_start quad_end"),
    *_bars("vision_start vision_end vision_pad image_pad video_pad"),
    *VISIBLE_TOKENS,
    *_pairs("image ref box quad point slice image_id unit answer focus line perception source_image image_save_to"),
    *_bars("audio_start audio audio_end spk_bos spk spk_eos tts_bos tts_eos listen speak interrupt vad_start vad_end"),
    *_bars("emotion_start emotion_end speed_start speed_end pitch_start pitch_end turn_bos turn_eos"),
    *_bars("chunk_eos chunk_bos chunk_tts_bos chunk_tts_eos tts_pad"),
    *(f"<|timbre_{number}|>" for number in range(7, 32)),
)
FIRST_ADDED_ID = 151_643
REAL_VOCAB_SIZE = FIRST_ADDED_ID + len(ADDED_TOKENS)

# Two ordinary slots of the vocabulary. `<unk>` marks the rows that media embeddings overwrite; `</s>` only ends speech
# text and is not parsed when it stands in a text.
UNK_TOKEN, UNK_ID = "<unk>", 128_244
SLASH_S_TOKEN, SLASH_S_ID = "</s>", 128_247

_NAMES = {
    "unk": UNK_TOKEN,
    "slash_s": SLASH_S_TOKEN,
    "endoftext": "<|endoftext|>",
    "im_start": "<|im_start|>",
    "im_end": "<|im_end|>",
    "think_start": "<think>",
    "think_end": "</think>",
    "image_start": "<image>",
    "image_end": "</image>",
    "slice_start": "<slice>",
    "slice_end": "</slice>",
    "image_id_start": "<image_id>",
    "image_id_end": "</image_id>",
    "unit_start": "<unit>",
    "unit_end": "</unit>",
    "audio_start": "<|audio_start|>",
    "audio_end": "<|audio_end|>",
    "spk_bos": "<|spk_bos|>",
    "spk_eos": "<|spk_eos|>",
    "tts_bos": "<|tts_bos|>",
    "tts_eos": "<|tts_eos|>",
    "tts_pad": "<|tts_pad|>",
    "listen": "<|listen|>",
    "speak": "<|speak|>",
    "interrupt": "<|interrupt|>",
    "turn_eos": "<|turn_eos|>",
    "chunk_eos": "<|chunk_eos|>",
    "chunk_tts_eos": "<|chunk_tts_eos|>",
}


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """Ids of the tokens this code acts on, as one vocabulary numbers them."""

    unk: int
    slash_s: int
    endoftext: int
    im_start: int
    im_end: int
    think_start: int
    think_end: int
    image_start: int
    image_end: int
    slice_start: int
    slice_end: int
    image_id_start: int
    image_id_end: int
    unit_start: int
    unit_end: int
    audio_start: int
    audio_end: int
    spk_bos: int
    spk_eos: int
    tts_bos: int
    tts_eos: int
    tts_pad: int
    listen: int
    speak: int
    interrupt: int
    turn_eos: int
    chunk_eos: int
    chunk_tts_eos: int


def find_special_tokens(find_id: Callable[[str], int | None], where: str) -> SpecialTokens:
    """Look every name up. Raises CheckpointError that lists the ones the vocabulary lacks."""
    found = {field.name: find_id(_NAMES[field.name]) for field in fields(SpecialTokens)}
    missing = [_NAMES[name] for name, token_id in found.items() if token_id is None]
    if missing:
        raise CheckpointError(f"{where}: the vocabulary lacks {', '.join(missing)}; is this a MiniCPM-o 4.5 tokenizer?")
    return SpecialTokens(**{name: token_id for name, token_id in found.items() if token_id is not None})
