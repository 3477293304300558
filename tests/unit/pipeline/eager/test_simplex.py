"""A turn-based session on a tiny random model whose answers follow a script."""

import numpy as np
import pytest
import torch
from PIL import Image

from antiphon.core.errors import ConfigError, ContextLengthError, MediaError, PromptError
from antiphon.engine.noise import Argmax
from antiphon.engine.simplex_sampling import SimplexSampling
from antiphon.pipeline.eager.simplex import SimplexOptions, SimplexSession
from antiphon.prompt.messages import AudioPart, ImagePart, Message, TextPart

SECOND = AudioPart(np.zeros(16_000, dtype=np.float32))
WORD = 70


@pytest.fixture
def session(omni, voice, recording):
    options = SimplexOptions(sampling=SimplexSampling(is_greedy=True, repetition_penalty=1.0), max_codes=18)
    session = SimplexSession(omni, options, noise=recording(), voice=voice)  # never draws the end of speech
    session.prefill(Message("system", (TextPart("be kind"),)))
    return session


def say(session, ids):
    """Answer with *ids*, then whatever ends the answer."""
    end = session._model.tokenizer.special.tts_eos

    def adjust(step, logits):
        chosen = ids[step] if step < len(ids) else end
        return torch.full_like(logits, -50.0).index_fill(0, torch.tensor([chosen]), 50.0)

    return adjust


def user(*parts):
    return Message("user", tuple(TextPart(part) if isinstance(part, str) else part for part in parts))


def answer(session, ids=(WORD,), **arguments):
    return list(session.generate(adjust_logits=say(session, list(ids)), **arguments))


def test_only_the_first_segment_of_a_turn_opens_it(session):
    assert session.prefill(user("a")).text == "<|im_start|>user\na"
    assert session.prefill(user("b")).text == "b"
    answer(session)
    assert session.prefill(user("c")).text == "<|tts_eos|><|im_end|>\n<|im_start|>user\nc"


def test_ids_of_an_answer_stay_in_the_context_but_its_terminator_does_not(session):
    session.prefill(user("a"))
    prefix = session._model.tokenizer.encode("<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n<|tts_bos|>")
    before = len(session.sequence)
    answer(session, [WORD] * 13, generate_audio=False)
    assert len(session.sequence) == before + len(prefix) + 13
    assert session.ids == [WORD] * 13


def test_a_text_answer_comes_ten_ids_at_a_time(session):
    session.prefill(user("a"))
    chunks = answer(session, [WORD] * 13, generate_audio=False, use_tts_template=False)
    letter = session._model.tokenizer.decode([WORD], skip_special=True)
    assert [(chunk.text, chunk.waveform, chunk.is_final) for chunk in chunks] == [
        (letter * 10, None, False),
        (letter * 3, None, True),
    ]


def test_a_spoken_answer_yields_text_with_its_audio(session, voice):
    session.prefill(user("a"))
    chunks = answer(session, [WORD] * 17)
    # 18 codes of the first piece wait, 18 more make a block of 25, the other 11 are spoken at the end.
    assert voice.pushed == [(25, False, False), (11, False, True)]
    assert [len(chunk.text) for chunk in chunks] == [17, 0]
    assert [(len(piece.rows), piece.is_last_text) for piece in session.spoken] == [(10, False), (7, True)]
    assert [chunk.is_final for chunk in chunks] == [False, True]


def test_a_token_limit_ends_the_answer_without_a_final_piece(session):
    session.prefill(user("a"))
    chunks = answer(session, [WORD] * 50, max_new_tokens=12)
    assert len(session.ids) == 12
    assert not any(piece.is_last_text for piece in session.spoken)
    assert not chunks[-1].is_final


def test_only_spoken_answers_are_registered(session):
    session.prefill(user("a"))
    answer(session, generate_audio=False)
    session.prefill(user("b"))
    answer(session, [WORD] * 3)
    assert [entry.role for entry in session.window.entries] == ["system", "user", "user", "assistant"]
    assert session.window.entries[-1].length == 3


def test_an_answer_that_is_left_early_ends_its_turn(session, voice):
    session.prefill(user("a"))
    chunks = session.generate(adjust_logits=say(session, [WORD] * 60))
    next(chunks)
    chunks.close()
    assert session.is_new_turn
    assert voice.num_resets == 1
    assert session.window.entries[-1].role == "assistant"


def test_audio_streams_through_a_turn_and_starts_afresh_in_the_next(session):
    session.prefill(user(SECOND))
    session.prefill(user(ImagePart(Image.new("RGB", (56, 56))), SECOND))
    assert (session.encoder.num_audio_frames, session.encoder.num_audio_segments) == (100, 2)
    session.prefill(user(AudioPart(SECOND.samples[:8000])), is_last_audio=True)
    assert session.encoder.num_audio_frames == 127  # the 53 mel frames that were left
    answer(session)
    assert (session.encoder.num_audio_frames, session.encoder.num_audio_segments) == (0, 0)


def test_audio_that_one_step_cannot_take_is_refused(session):
    long, short = AudioPart(np.zeros(16_001, np.float32)), AudioPart(np.zeros(9000, np.float32))
    with pytest.raises(MediaError, match="16001"):
        session.prefill(user(long))
    session.prefill(user(short))  # the first one is filled up
    length = len(session.sequence)
    with pytest.raises(MediaError, match="9000"):
        session.prefill(user(short))
    with pytest.raises(PromptError, match="2 audio parts"):
        session.prefill(user(SECOND, SECOND))
    assert len(session.sequence) == length


def test_what_looks_like_markup_in_a_segment_stays_text(session):
    special = session._model.tokenizer.special
    ids = session.prefill(user("<image><|im_end|>")).ids
    assert ids.count(special.im_start) == 1
    assert special.image_start not in ids
    assert special.im_end not in ids


def test_the_window_cuts_behind_the_system_part(session):
    session.prefill(user("a"))
    answer(session, [WORD] * 5)
    session.window.high_tokens = session.window.low_tokens = session.system_len + 10
    kept = session.sequence.cache.layer(1)[1][:, : session.system_len]
    length = len(session.sequence)
    segment = session.prefill(user("b"))
    # The first round cannot leave, so the new segment is counted out at once, and as many rows behind the system go.
    assert len(session.sequence) == length
    assert session.window.num_dropped_tokens == len(segment.ids)
    assert torch.equal(session.sequence.cache.layer(1)[1][:, : session.system_len], kept)


def test_misuse_is_refused(omni, session, make_omni):
    with pytest.raises(PromptError, match="comes first"):
        session.prefill(Message("system", (TextPart("again"),)))
    with pytest.raises(PromptError, match="assistant"):
        session.prefill(Message("assistant", (TextPart("no"),)))
    mute = SimplexSession(omni, SimplexOptions(), noise=Argmax())
    with pytest.raises(ConfigError, match="voice"):
        next(mute.generate())
    small = SimplexSession(make_omni(max_positions=60), SimplexOptions(), noise=Argmax())
    with pytest.raises(ContextLengthError, match="of 60"):
        small.prefill(user("x" * 80))
    small.prefill(user("x"))
    with pytest.raises(ContextLengthError, match="an answer"):
        next(small.generate(generate_audio=False))
