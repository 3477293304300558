import pytest
import torch

from antiphon.models.code2wav.rel_position import by_key, distance_features


@pytest.mark.parametrize(("num_queries", "num_keys"), [(1, 1), (1, 5), (4, 4), (3, 9)])
def test_every_query_finds_the_score_of_its_distance(num_queries: int, num_keys: int) -> None:
    distances = torch.arange(num_keys - 1, -num_queries, -1)
    placed = by_key(distances.repeat(2, num_queries, 1))
    position = torch.arange(num_keys - num_queries, num_keys)
    assert torch.equal(placed[1], position[:, None] - torch.arange(num_keys))


def test_features_are_sines_and_cosines_of_signed_distances() -> None:
    features = distance_features(2, 3, 4, torch.device("cpu"))
    distance = torch.tensor([2.0, 1.0, 0.0, -1.0])
    assert features.shape == (4, 4)
    torch.testing.assert_close(features[:, 0], distance.sin())
    torch.testing.assert_close(features[:, 3], (distance * 0.01).cos())
