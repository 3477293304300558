"""The bounded shelf of voices."""

from dataclasses import dataclass

import pytest

from antiphon.core.errors import CapacityError, StateError
from antiphon.engine.code2wav_voices import VoiceShelf


@dataclass(frozen=True)
class FakeState:
    num_bytes: int = 10
    num_prompt_frames: int = 4

    def restore(self, class_index: int, slot: int) -> None:
        return


def put(shelf: VoiceShelf, key: str, num_bytes: int = 10) -> None:
    shelf.make_room(num_bytes)
    shelf.put(key, FakeState(num_bytes))


def test_the_least_recently_used_voice_leaves_first() -> None:
    shelf = VoiceShelf(2, 1000)
    put(shelf, "a")
    put(shelf, "b")
    shelf.touch("a")
    put(shelf, "c")
    assert ["a" in shelf, "b" in shelf, "c" in shelf] == [True, False, True]


def test_a_voice_that_a_stream_holds_stays() -> None:
    shelf = VoiceShelf(2, 1000)
    put(shelf, "a")
    put(shelf, "b")
    held = shelf.lend("a")
    shelf.lend("b")
    with pytest.raises(CapacityError, match="all in use"):
        shelf.make_room()
    shelf.give_back(held)
    put(shelf, "c")
    assert "a" not in shelf
    assert "b" in shelf


def test_bytes_are_bounded_too() -> None:
    shelf = VoiceShelf(9, 25)
    for key in "abc":
        put(shelf, key)
    assert len(shelf) == 2
    assert shelf.num_bytes == 20


def test_a_voice_larger_than_the_bound_is_kept_alone() -> None:
    shelf = VoiceShelf(9, 25)
    put(shelf, "a")
    put(shelf, "huge", 100)
    assert len(shelf) == 1
    assert "huge" in shelf


def test_an_unknown_voice_is_refused_by_name() -> None:
    with pytest.raises(StateError, match="'nobody'"):
        VoiceShelf(1, 1).lend("nobody")
