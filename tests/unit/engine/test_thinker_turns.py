import re

import pytest
import torch

from antiphon.core.errors import AntiphonError
from antiphon.engine.sequence import Sequence
from antiphon.engine.text_sampler_state import FOREVER
from antiphon.engine.thinker_messages import MediaRows, ThinkerPiece, ThinkerSampling
from antiphon.engine.thinker_turns import PieceReader, SequenceRecord, Turn, rows_within

RULE = ThinkerSampling(max_tokens=5)
READER = PieceReader(vocab_size=50, hidden_size=4)


def rows(count: int, size: int = 4) -> torch.Tensor:
    return torch.arange(count * size, dtype=torch.float32).view(count, size)


@pytest.mark.parametrize(
    ("piece", "message"),
    [
        (ThinkerPiece(ids=(1, 50), sampling=RULE), "outside 0 … 49"),
        (ThinkerPiece(ids=(1,)), "needs sampling parameters"),
        (ThinkerPiece(ids=(1,), sampling=ThinkerSampling(stop_token_ids=(50,))), "stop_token_ids holds 50"),
        (ThinkerPiece(ids=(1,) * 4, media=(MediaRows(0, rows(2, 5)),), sampling=RULE), "expected [n, 4]"),
        (ThinkerPiece(ids=(1,) * 4, media=(MediaRows(3, rows(2)),), sampling=RULE), "leave the piece of 4 tokens"),
        (
            ThinkerPiece(ids=(1,) * 9, media=(MediaRows(3, rows(3)), MediaRows(5, rows(1))), sampling=RULE),
            "overlap others",
        ),
    ],
)
def test_a_piece_that_can_never_run_is_refused_by_name(piece: ThinkerPiece, message: str) -> None:
    with pytest.raises(AntiphonError, match=re.escape(message)):
        READER.read(piece, None)


@pytest.mark.parametrize("field", ["temperature", "repetition_penalty", "top_p"])
def test_a_parameter_out_of_range_is_refused_by_name(field: str) -> None:
    with pytest.raises(AntiphonError, match=field):
        ThinkerSampling(**{field: -1.0})  # type: ignore[arg-type]


def test_the_last_rule_holds_when_a_piece_brings_none() -> None:
    _, turn, _ = READER.read(ThinkerPiece(ids=(1,)), RULE)
    assert turn.sampling is RULE


def test_rows_cost_one_draw_more_and_computing_none() -> None:
    def draws(**fields: bool) -> int:
        return READER.read(ThinkerPiece(ids=(1,), sampling=RULE, **fields), None)[0].max_draws  # type: ignore[arg-type]

    assert (draws(), draws(wants_hidden=True), draws(decode=False, wants_hidden=True)) == (5, 6, 0)


def test_media_are_found_wherever_a_chunk_cuts_them() -> None:
    piece = ThinkerPiece(ids=(1,) * 12, media=(MediaRows(2, rows(4)), MediaRows(7, rows(3) + 100)), sampling=RULE)
    read, turn, by_span = READER.read(piece, None)
    record = SequenceRecord(Sequence("a", read), turn, by_span)
    parts = rows_within(record, 4, 8)
    assert [(offset, part[:, 0].tolist()) for offset, part, _ in parts] == [(0, [8.0, 12.0]), (3, [100.0])]
    assert rows_within(record, 10, 12) == []


def test_terminators_are_banned_forever_only_when_they_are_no_stops() -> None:
    rule = ThinkerSampling(end_ids=(3, 4), stop_token_ids=(4, 9), ignore_eos=True, min_tokens=2)
    assert rule.stop_ids == {4, 9}
    assert Turn(rule, wants_hidden=False).rule(0).banned == ((3, FOREVER), (4, 2), (9, 2))
