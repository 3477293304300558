import torch

from antiphon.engine.noise import Argmax, InverseCdf
from antiphon.engine.simplex_sampling import SimplexSampling, next_simplex_token, simplex_scores


def score(logits, generated=(), forbidden=(), stops=(), **kwargs):
    return simplex_scores(
        torch.tensor(logits),
        torch.tensor(generated, dtype=torch.int64),
        SimplexSampling(**kwargs),
        forbidden_ids=torch.tensor(forbidden, dtype=torch.int64),
        stop_ids=torch.tensor(stops, dtype=torch.int64),
    )


def test_the_penalty_counts_presence_and_respects_the_sign():
    scores = score([2.0, -2.0, 1.0], generated=(0, 0, 1), is_greedy=True, repetition_penalty=2.0)
    assert scores.tolist() == [1.0, -4.0, 1.0]


def test_the_penalty_sees_the_last_128_generated_ids_only():
    rest = [2] * 127
    scores = score([1.0, 1.0, 1.0], generated=[0, 1, *rest], is_greedy=True, repetition_penalty=2.0)
    assert scores.tolist() == [1.0, 0.5, 0.5]


def test_a_forbidden_id_is_never_drawn_even_greedily():
    chosen = next_simplex_token(
        torch.tensor([1.0, 9.0]), [], SimplexSampling(is_greedy=True), Argmax(), forbidden_ids=[1, 1], stop_ids=[]
    )
    assert chosen == 0


def test_the_length_penalty_acts_on_terminators_by_sign_and_is_off_by_default():
    logits = [3.0, -3.0, 3.0]
    assert score(logits, stops=(0, 1), is_greedy=True).tolist() == logits
    assert score(logits, stops=(0, 1), is_greedy=True, length_penalty=1.5).tolist() == [2.0, -4.5, 3.0]


def test_top_k_comes_before_top_p():
    logits = torch.tensor([0.35, 0.25, 0.2, 0.1, 0.1]).log().tolist()
    scores = score(logits, temperature=1.0, top_k=3, top_p=0.7)
    assert torch.nonzero(torch.isfinite(scores))[:, 0].tolist() == [0, 1]


def test_sampling_takes_one_draw():
    noise = InverseCdf([0.99])
    logits = torch.tensor([0.5, 0.4, 0.1]).log()
    sampling = SimplexSampling(temperature=1.0, top_p=1.0)
    assert next_simplex_token(logits, [], sampling, noise, forbidden_ids=[2], stop_ids=[]) == 1
    assert noise.num_draws == 1
