import pytest

from antiphon.engine.prefix_hash import MediaSpan, block_hash

IDS = (1, 2, 3, 4)
SPAN = MediaSpan(5, 7, b"cat")


def test_equal_content_has_one_name_whatever_the_owner_calls_its_media():
    renamed = MediaSpan(5, 7, b"cat", id=9)
    assert block_hash(b"p", IDS, 4, [SPAN]) == block_hash(b"p", list(IDS), 4, [renamed])


@pytest.mark.parametrize(
    ("parent", "ids", "media"),
    [
        (b"q", IDS, [SPAN]),
        (b"p", (1, 2, 3, 5), [SPAN]),
        (b"p", IDS, []),
        (b"p", IDS, [MediaSpan(5, 7, b"dog")]),
        (b"p", IDS, [MediaSpan(4, 6, b"cat")]),
        (b"p", IDS, [MediaSpan(5, 6, b"cat"), MediaSpan(6, 7, b"cat")]),
        (b"p", IDS, [MediaSpan(3, 7, b"cat")]),
    ],
)
def test_other_content_has_another_name(parent, ids, media):
    assert block_hash(parent, ids, 4, media) != block_hash(b"p", IDS, 4, [SPAN])


def test_media_outside_the_block_do_not_matter():
    outside = [MediaSpan(0, 4, b"a"), MediaSpan(8, 9, b"")]
    assert block_hash(b"", IDS, 4, outside) == block_hash(b"", IDS, 4, [])


def test_a_block_over_media_of_unknown_content_has_no_name():
    assert block_hash(b"", IDS, 4, [MediaSpan(7, 9, b"")]) is None


def test_the_position_of_a_block_follows_from_its_parents_only():
    assert block_hash(b"p", IDS, 4, []) == block_hash(b"p", IDS, 8, [])
