import pytest
import torch

from antiphon.core.errors import SamplingError
from antiphon.engine.chat_sampling import ChatSampling, chat_scores, next_chat_token
from antiphon.engine.noise import Argmax, InverseCdf

NOTHING = torch.tensor([], dtype=torch.int64)


def kept(scores):
    return torch.nonzero(torch.isfinite(scores))[:, 0].tolist()


def test_the_penalty_counts_presence_and_respects_the_sign():
    sampling = ChatSampling(is_greedy=True, repetition_penalty=2.0)
    scores = chat_scores(torch.tensor([2.0, -2.0, 1.0]), torch.tensor([0, 1, 1, 0]), sampling)
    assert scores.tolist() == [1.0, -4.0, 1.0]


def test_top_k_comes_before_top_p():
    # Of all ids the best two hold 0.6 < 0.65; of the best three they hold 0.75, so top-p drops the third.
    logits = torch.tensor([0.35, 0.25, 0.2, 0.1, 0.1]).log()
    sampling = ChatSampling(temperature=1.0, top_k=3, top_p=0.7)
    assert kept(chat_scores(logits, NOTHING, sampling)) == [0, 1]


def test_temperature_comes_before_the_filters():
    logits = torch.tensor([0.4, 0.3, 0.3]).log()
    assert kept(chat_scores(logits, NOTHING, ChatSampling(temperature=0.1, top_p=0.8))) == [0]
    assert kept(chat_scores(logits, NOTHING, ChatSampling(temperature=1.0, top_p=0.8))) == [0, 1, 2]


def test_min_p_comes_last():
    logits = torch.tensor([0.6, 0.25, 0.15]).log()
    sampling = ChatSampling(temperature=1.0, top_p=1.0, top_k=0, min_p=0.3)
    assert kept(chat_scores(logits, NOTHING, sampling)) == [0, 1]


def test_greedy_takes_the_best_penalised_id_without_a_draw():
    noise = InverseCdf([])
    sampling = ChatSampling(is_greedy=True, repetition_penalty=1.5)
    assert next_chat_token(torch.tensor([1.0, 1.2]), [1], sampling, noise) == 0


def test_sampling_draws_once_from_what_is_left():
    noise = InverseCdf([0.99])
    logits = torch.tensor([0.5, 0.4, 0.1]).log()
    assert next_chat_token(logits, [], ChatSampling(temperature=1.0, top_k=2, top_p=1.0), noise) == 1
    assert noise.num_draws == 1


def test_half_precision_scores_are_processed_in_float32():
    scores = chat_scores(torch.tensor([1.0, 2.0], dtype=torch.bfloat16), NOTHING, ChatSampling())
    assert scores.dtype == torch.float32


def test_greedy_accepts_a_temperature_of_zero_and_sampling_does_not():
    assert next_chat_token(torch.tensor([0.0, 1.0]), [], ChatSampling(is_greedy=True, temperature=0.0), Argmax()) == 1
    with pytest.raises(SamplingError, match="temperature"):
        ChatSampling(temperature=0.0)
