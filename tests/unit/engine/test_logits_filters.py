import torch

from antiphon.engine.logits_filters import forbid, keep_min_p, keep_nucleus, keep_top_k, keep_top_p, penalise_present


def kept(scores):
    return torch.nonzero(torch.isfinite(scores))[:, 0].tolist()


def scores_of(*probs):
    return torch.tensor(probs).log()


def test_the_presence_penalty_moves_every_seen_score_down_and_counts_repeats_once():
    scores = penalise_present(torch.tensor([2.0, -2.0, 1.0]), torch.tensor([0, 1, 0, 0]), 2.0)
    assert scores.tolist() == [1.0, -4.0, 1.0]


def test_forbidden_ids_leave_the_input_alone():
    scores = torch.zeros(3)
    assert kept(forbid(scores, torch.tensor([1, 1]))) == [0, 2]
    assert kept(forbid(scores, torch.tensor([], dtype=torch.int64))) == [0, 1, 2]
    assert kept(scores) == [0, 1, 2]


def test_top_k_keeps_ties_with_the_last_place():
    assert kept(keep_top_k(torch.tensor([1.0, 3.0, 1.0, 0.0]), 2)) == [0, 1, 2]


def test_top_k_of_zero_or_more_than_there_are_keeps_all():
    assert kept(keep_top_k(torch.tensor([1.0, 3.0, 2.0]), 0)) == [0, 1, 2]
    assert kept(keep_top_k(torch.tensor([1.0, 3.0, 2.0]), 9)) == [0, 1, 2]


def test_top_k_never_goes_below_its_minimum():
    assert kept(keep_top_k(torch.tensor([1.0, 3.0, 2.0, 0.0]), 1, min_keep=3)) == [0, 1, 2]


def test_top_p_drops_the_tail_from_the_smallest_up():
    assert kept(keep_top_p(scores_of(0.5, 0.1, 0.3, 0.1), 0.75)) == [0, 2]


def test_top_p_never_goes_below_its_minimum():
    assert kept(keep_top_p(scores_of(0.97, 0.01, 0.015, 0.005), 0.5, min_keep=3)) == [0, 1, 2]
    assert kept(keep_top_p(scores_of(0.97, 0.01, 0.02), 0.0)) == [0]


def test_top_p_of_one_keeps_all():
    assert kept(keep_top_p(scores_of(0.999, 0.0005, 0.0005), 1.0)) == [0, 1, 2]


def test_min_p_is_relative_to_the_most_probable_id():
    assert kept(keep_min_p(scores_of(0.5, 0.3, 0.15, 0.05), 0.4)) == [0, 1]
    assert kept(keep_min_p(scores_of(0.5, 0.3, 0.2), 0.0)) == [0, 1, 2]


def test_the_nucleus_keeps_the_id_that_crosses_top_p():
    assert kept(keep_nucleus(scores_of(0.1, 0.5, 0.3, 0.1), 0, 0.6)) == [1, 2]


def test_the_nucleus_is_measured_on_what_top_k_leaves():
    # Of all four ids the first two hold 0.7 < 0.75; of the best three they hold 0.78.
    assert kept(keep_nucleus(scores_of(0.4, 0.3, 0.2, 0.1), 0, 0.75)) == [0, 1, 2]
    assert kept(keep_nucleus(scores_of(0.4, 0.3, 0.2, 0.1), 3, 0.75)) == [0, 1]


def test_a_nucleus_of_zero_is_off():
    assert kept(keep_nucleus(scores_of(0.4, 0.3, 0.2, 0.1), 3, 0.0)) == [0, 1, 2]
