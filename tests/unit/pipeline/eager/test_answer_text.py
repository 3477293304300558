from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from antiphon.core.outputs import FinishReason
from antiphon.pipeline.eager.answer_text import AnswerText, SpeechText, SpokenToken
from antiphon.pipeline.eager.thinker import ThinkerSequence
from antiphon.pipeline.omni_model import OmniModel


class Script:
    """Stands in for the sampler: draws the given ids."""

    def __init__(self, ids: Sequence[int], stop_ids: Sequence[int]) -> None:
        self._ids = list(ids)
        self.stop_ids = frozenset(stop_ids)

    def draw(self, logits: Tensor, generated: Sequence[int]) -> int:
        return self._ids[len(generated)]


def answer(omni: OmniModel, ids: Sequence[int], *, max_tokens: int = 100, stop: tuple[str, ...] = ()) -> AnswerText:
    sequence = ThinkerSequence(omni.thinker)
    last = sequence.feed_ids([1, 2])[-1]
    sampler = Script(ids, [omni.tokenizer.special.im_end])
    return AnswerText(sequence, last, sampler=sampler, tokenizer=omni.tokenizer, max_tokens=max_tokens, stop=stop)  # type: ignore[arg-type]


def spoken(omni: OmniModel, text: AnswerText) -> str:
    return omni.tokenizer.decode([token.id for token in text.speech.waiting], skip_special=False)


def test_an_answer_ends_at_its_terminator_which_is_not_spoken(omni: OmniModel) -> None:
    ids = [*omni.tokenizer.encode_plain("hi é"), omni.tokenizer.special.im_end]
    text = answer(omni, ids)
    assert "".join(text.run()) == text.text == "hi é"
    assert text.ids == ids
    assert text.finish_reason is FinishReason.STOP
    assert spoken(omni, text) == "hi é"


def test_each_spoken_token_has_the_row_of_its_own_forward_pass(omni: OmniModel) -> None:
    ids = omni.tokenizer.encode_plain("abc")
    text = answer(omni, [*ids, omni.tokenizer.special.im_end])
    list(text.run())
    rows = ThinkerSequence(omni.thinker).feed_ids([1, 2, *ids])[2:]
    assert torch.allclose(torch.stack([token.hidden for token in text.speech.waiting]), rows, atol=1e-5)


def test_an_answer_at_its_limit_speaks_its_last_token_too(omni: OmniModel) -> None:
    text = answer(omni, omni.tokenizer.encode_plain("abcdef"), max_tokens=4)
    list(text.run())
    assert (text.text, text.finish_reason) == ("abcd", FinishReason.LENGTH)
    assert spoken(omni, text) == "abcd"


def test_a_stop_string_is_neither_shown_nor_spoken(omni: OmniModel) -> None:
    text = answer(omni, omni.tokenizer.encode_plain("one END two"), stop=("END",))
    list(text.run())
    assert (text.text, text.finish_reason) == ("one ", FinishReason.STOP)
    assert spoken(omni, text) == "one "


def token(token_id: int) -> SpokenToken:
    return SpokenToken(token_id, torch.zeros(1), 0)


@pytest.mark.parametrize(
    ("before", "kept"),
    [
        ("think_start words think_end", True),
        ("words tts_bos", True),
        ("words", False),
    ],
)
def test_thoughts_and_what_precedes_the_speech_token_are_not_spoken(omni: OmniModel, before: str, kept: bool) -> None:
    special = omni.tokenizer.special
    ids = {"think_start": special.think_start, "think_end": special.think_end, "tts_bos": special.tts_bos, "words": 1}
    speech = SpeechText(omni.tokenizer)
    for word in before.split():
        speech.push(token(ids[word]))
    speech.push(token(7))
    assert [each.id for each in speech.waiting] == ([7] if kept else [1, 7])


def test_an_open_thought_is_not_spoken(omni: OmniModel) -> None:
    speech = SpeechText(omni.tokenizer)
    for token_id in (omni.tokenizer.special.think_start, 5, 6):
        speech.push(token(token_id))
    assert speech.take() == []


def test_tokens_are_handed_on_once_in_their_order(omni: OmniModel) -> None:
    speech = SpeechText(omni.tokenizer)
    for token_id in range(5):
        speech.push(token(token_id))
    assert [each.id for each in speech.take(3)] == [0, 1, 2]
    assert [each.id for each in speech.take()] == [3, 4]
