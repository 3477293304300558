import random

from antiphon.engine.code_buffer import SILENCE_ID, CodeBuffer, CodeChunk

SILENCE = (SILENCE_ID,) * 3


def unit(start: int, num_codes: int = 25) -> list[int]:
    return list(range(start, start + num_codes))


def sizes(chunks: list[CodeChunk]) -> list[tuple[int, bool]]:
    return [(len(chunk.codes), chunk.is_last) for chunk in chunks]


def test_a_turn_starts_with_three_codes_of_silence() -> None:
    chunks = CodeBuffer().push(unit(0), first=True, end_of_turn=False)
    assert chunks == [CodeChunk((*SILENCE, *range(25)), is_last=False)]


def test_the_look_ahead_is_given_again_with_the_next_chunk() -> None:
    buffer = CodeBuffer()
    buffer.push(unit(0), first=True, end_of_turn=False)
    (chunk,) = buffer.push(unit(25), first=False, end_of_turn=False)
    assert chunk.codes == tuple(range(22, 50))


def test_a_turn_end_is_one_ordinary_chunk_and_a_last_one_of_three() -> None:
    buffer = CodeBuffer()
    buffer.push(unit(0), first=True, end_of_turn=False)
    assert sizes(buffer.push(unit(25), first=False, end_of_turn=True)) == [(28, False), (3, True)]


def test_a_turn_of_one_unit_is_flushed_and_ended() -> None:
    assert sizes(CodeBuffer().push(unit(0), first=True, end_of_turn=True)) == [(28, False), (3, True)]


def test_a_short_first_unit_is_voiced_from_five_codes_on() -> None:
    buffer = CodeBuffer()
    assert buffer.push(unit(0, 4), first=True, end_of_turn=False) == []
    assert len(buffer) == 7
    (chunk,) = buffer.push(unit(4, 1), first=True, end_of_turn=False)
    assert chunk.codes == (*SILENCE, 0, 1, 2, 3, 4)
    assert len(buffer) == 3


def test_a_short_later_unit_waits() -> None:
    buffer = CodeBuffer()
    assert buffer.push(unit(0, 24), first=False, end_of_turn=False) == []
    assert sizes(buffer.push(unit(24, 1), first=False, end_of_turn=False)) == [(28, False)]


def test_a_short_unit_that_ends_the_turn_is_one_last_chunk() -> None:
    (chunk,) = CodeBuffer().push(unit(0, 4), first=False, end_of_turn=True)
    assert chunk == CodeChunk((*SILENCE, 0, 1, 2, 3), is_last=True)


def test_an_end_without_new_codes_voices_what_waits() -> None:
    (chunk,) = CodeBuffer().push([], first=False, end_of_turn=True)
    assert chunk == CodeChunk(SILENCE, is_last=True)


def test_a_long_first_unit_is_several_chunks_the_last_of_them_short() -> None:
    buffer = CodeBuffer()
    assert sizes(buffer.push(unit(0, 57), first=True, end_of_turn=False)) == [(28, False), (28, False), (10, False)]
    assert len(buffer) == 3


def test_after_a_turns_end_and_after_a_reset_the_buffer_is_new() -> None:
    buffer = CodeBuffer()
    buffer.push(unit(0, 9), first=False, end_of_turn=True)
    assert len(buffer) == 3
    buffer.push(unit(0, 9), first=False, end_of_turn=False)
    buffer.reset()
    assert len(buffer) == 3


def test_every_code_is_voiced_exactly_once_however_units_are_cut() -> None:
    chance = random.Random(1)
    for _ in range(200):
        buffer, codes, voiced = CodeBuffer(), list(range(chance.randrange(120))), []
        expected, is_first = [*SILENCE, *codes], True
        while True:
            num_now = chance.randrange(40)
            now, codes = codes[:num_now], codes[num_now:]
            for chunk in buffer.push(now, first=is_first, end_of_turn=not codes):
                voiced += chunk.codes if chunk.is_last else chunk.codes[:-3]
            is_first = False
            if not codes:
                break
        assert voiced == expected
