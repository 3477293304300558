import pytest
import torch

from antiphon.core.errors import CheckpointError
from antiphon.models.tensor_names import StoredTensor, account, require_clean


def stored(*shape: int) -> StoredTensor:
    return StoredTensor(shape, torch.bfloat16)


def test_all_that_differs_is_one_error_with_counts() -> None:
    first = account("a", {"w": (2, 3), "gone": (1,)}, {"w": stored(3, 2), "new": stored(1)})
    second = account("b", {"x": (1,)}, {})
    with pytest.raises(CheckpointError) as caught:
        require_clean([first, second])
    message = str(caught.value)
    assert "a: 1 missing (gone), 1 unexpected (new), 1 mis-shaped (w has [3, 2], expected [2, 3])" in message
    assert "b: 1 missing (x)" in message
    assert "\n" not in message


def test_a_long_list_is_cut_and_counted() -> None:
    entry = account("a", {f"w{index}": (1,) for index in range(1000)}, {})
    assert "1000 missing (w0; " in entry.describe()
    assert "… 992 more" in entry.describe()
    assert len(entry.describe()) < 200


def test_a_clean_account_raises_nothing() -> None:
    require_clean([account("a", {"w": (2,)}, {"w": stored(2)})])


def test_bytes_follow_from_shape_and_type() -> None:
    assert stored(3, 5).num_bytes == 30
    assert stored().num_values == 1
