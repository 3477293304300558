"""Weights of the tiny Thinker and Talker: random, with heads scaled so that answers are varied and come to an end.

A few dimensions of the residual stream are reserved: embeddings set them and no layer writes to them, so that the final
norm hands them to the head almost unchanged. The first is always on: the head's column for it acts as a bias per id.
The others mark what was just fed (the start of an answer, its end, the end of a turn, a second of audio or an image),
from which the head makes the usual next control id likely. Real models keep such constant directions too.
"""

from antiphon.config.checkpoint import ModelConfig
from antiphon.pipeline.tiny_checkpoint.values import Values, default_values
from antiphon.pipeline.tiny_checkpoint.vocabulary import Vocabulary, byte_letters, is_speakable

_ALWAYS, _AFTER_MEDIA, _AFTER_TEXT, _AFTER_TURN, _AT_START = range(5)
_NUM_RESERVED = 5
_LEVEL = 6.0  # of a reserved dimension in the embeddings
_SEEN = 2.0  # what is left of it after the final norm, roughly
_BRANCH_GAIN = 2.0  # of attention and MLP outputs: answers should depend on what was said
_SPREAD = 1.6  # standard deviation of the logits of ordinary ids
# Logits beside the random part: inside a word, single letters, ids that should not come at all, and the usual ends.
_INSIDE, _LETTER, _NEVER, _TEXT_END, _TURN_END = -2.0, -4.0, -14.0, 3.0, 2.4
_CERTAIN, _LISTEN, _SPEAK = 16.0, 9.6, 8.9

_TALKER_LEVEL = 2.0
_TALKER_TABLE_GAIN = 2.5
_TALKER_SEEN = 1.0
_TALKER_SPREAD = 1.6
_SPEECH_END = 5.3


def thinker_values(
    seed: int, config: ModelConfig, shapes: dict[str, tuple[int, ...]], vocabulary: Vocabulary
) -> Values:
    """Name → value [shape] float32 for every stored tensor of the Thinker."""
    values = default_values(seed, shapes)
    for name in values:
        if name.endswith(("self_attn.o_proj.weight", "mlp.down_proj.weight")) and name.startswith("llm."):
            values[name] *= _BRANCH_GAIN
            values[name][:_NUM_RESERVED] = 0.0
        elif name.endswith(("q_norm.weight", "k_norm.weight")):
            values[name] *= 2.0  # sharper attention: the mean over a long prompt would say little
    special = vocabulary.added
    embeddings = values["llm.model.embed_tokens.weight"]
    embeddings /= embeddings.std()
    embeddings[:, :_NUM_RESERVED] = 0.0
    embeddings[:, _ALWAYS] = _LEVEL
    for token in ("</image>", "</slice>"):
        embeddings[special[token], _AFTER_MEDIA] = _LEVEL
    embeddings[special["<|tts_eos|>"], _AFTER_TEXT] = _LEVEL
    embeddings[special["<|turn_eos|>"], _AFTER_TURN] = _LEVEL
    line_end = byte_letters()[ord("\n")]  # the last token of a prompt for text alone
    for index in (special["<|tts_bos|>"], special["<|speak|>"], vocabulary.ids[line_end]):
        embeddings[index, _AT_START] = _LEVEL
    values["llm.model.norm.weight"][:_NUM_RESERVED] = 1.0

    hidden_size = config.llm.hidden_size
    head = values["llm.lm_head.weight"]
    head *= _SPREAD / (head.std() * hidden_size**0.5)
    head[:, :_NUM_RESERVED] = 0.0
    head[:, _ALWAYS] = [level / _SEEN for level in _text_levels(vocabulary)]
    for token, dimension, level in (
        ("<|im_end|>", _AFTER_TEXT, _CERTAIN),
        ("<|chunk_eos|>", _AFTER_TURN, _CERTAIN),
    ):
        head[special[token], dimension] = (level - _NEVER) / _SEEN
    for token, level in (("<|listen|>", _LISTEN), ("<|speak|>", _SPEAK)):
        # No random part: whatever is heard, a live session is answered within a few seconds.
        head[special[token]] = 0.0
        head[special[token], _ALWAYS] = _NEVER / _SEEN
        head[special[token], _AFTER_MEDIA] = (level - _NEVER) / _SEEN
    for token, level in (("<|tts_eos|>", _TEXT_END), ("<|turn_eos|>", _TURN_END)):
        head[special[token]] = 0.0
        head[special[token], _ALWAYS] = level / _SEEN
        head[special[token], _AT_START] = _NEVER / _SEEN  # no empty answers

    # Media rows carry the constant direction as token embeddings do; audio also marks that a unit's input is complete.
    audio = "audio_projection_layer.linear2."
    values[audio + "weight"][:_NUM_RESERVED] = 0.0
    values[audio + "bias"][:_NUM_RESERVED] = [_LEVEL, _LEVEL, 0.0, 0.0, 0.0]
    values["resampler.proj"][:, :_NUM_RESERVED] = 0.0
    values["resampler.proj"][_ALWAYS, _ALWAYS] = 1.0
    values["resampler.ln_post.weight"][_ALWAYS] = 0.0
    values["resampler.ln_post.bias"][_ALWAYS] = _LEVEL
    return values


def _text_levels(vocabulary: Vocabulary) -> list[float]:
    """The bias of every id: words are favoured, letters rarer, broken characters and control ids all but impossible."""
    levels = []
    blank = byte_letters()[ord(" ")]
    bad_ids = set(vocabulary.bad_ids())
    for token, index in vocabulary.ids.items():
        if index in bad_ids or not is_speakable(vocabulary.surface(token)):
            levels.append(_NEVER)
        else:
            is_word = token.startswith(blank) or not token.isascii()
            levels.append(_LETTER if len(token) == 1 else 0.0 if is_word else _INSIDE)
    return levels + [_NEVER] * len(vocabulary.added)


def talker_values(seed: int, config: ModelConfig, shapes: dict[str, tuple[int, ...]]) -> Values:
    """Name → value for the Talker's parameters (the head not yet split into magnitude and direction)."""
    values = default_values(seed, shapes)
    for name in values:
        if name.endswith(("self_attn.o_proj.weight", "mlp.down_proj.weight")):
            values[name] *= _BRANCH_GAIN
            values[name][_ALWAYS] = 0.0
    for name in ("emb_text.weight", "emb_code.0.weight"):
        values[name] *= _TALKER_TABLE_GAIN
        values[name][:, _ALWAYS] = _TALKER_LEVEL
    values["projector_semantic.linear2.weight"][_ALWAYS] = 0.0
    values["projector_semantic.linear2.bias"][_ALWAYS] = 0.0
    values["model.norm.weight"][_ALWAYS] = 1.0
    head = values["head_code.0.weight"]
    head *= _TALKER_SPREAD / (head.std() * config.talker.decoder.hidden_size**0.5)
    head[:, _ALWAYS] = 0.0
    head[config.talker.codec_eos_id] = 0.0
    head[config.talker.codec_eos_id, _ALWAYS] = _SPEECH_END / _TALKER_SEEN
    return values
