"""What the Talker is prefilled with: the conditions of a chat answer, a stream piece and a duplex unit (3.1)."""

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from antiphon.engine.speech_span import speech_span
from antiphon.models.talker.talker import Talker


def close_condition(talker: Talker, rows: Tensor, *, has_text_eos: bool) -> Tensor:
    """Append text_eos (only behind the last text of an answer) and audio_bos to condition rows [n, H]."""
    ends = [talker.config.text_eos_id] * has_text_eos + [talker.config.audio_bos_id]
    return torch.cat((rows, talker.embed_text(torch.tensor(ends, device=talker.device))))


def unit_condition(talker: Talker, ids: Sequence[int], hidden: Sequence[Tensor]) -> Tensor:
    """Condition of one duplex unit: its collected ids with their hidden rows, then audio_bos, never text_eos.

    An empty unit is audio_bos alone. *hidden*: one row [llm_hidden] for each id. Returns [n + 1, H].
    """
    # The reference always normalises here, whatever the checkpoint says.
    return close_condition(talker, condition_rows(talker, ids, hidden, normalized=True), has_text_eos=False)


def condition_rows(
    talker: Talker, ids: Sequence[int], hidden: Sequence[Tensor], *, normalized: bool | None = None
) -> Tensor:
    """Condition rows [n, H] without specials, also for no ids at all. *hidden* as in `unit_condition`."""
    if not ids:
        return talker.embed_text(torch.zeros(0, dtype=torch.int64, device=talker.device))
    spoken = torch.tensor(ids, dtype=torch.int64, device=talker.device)
    return talker.condition(spoken, torch.stack(tuple(hidden)), normalized=normalized)


def chat_condition(
    talker: Talker,
    ids: Sequence[int],
    hidden: Tensor,
    *,
    first_position: int = 0,
    tts_bos_id: int,
    tts_eos_id: int,
    stop_ids: Collection[int],
) -> Tensor | None:
    """Condition of a whole chat answer, with text_eos and audio_bos; None when nothing is to be spoken.

    Args:
        talker: the model.
        ids: prompt and answer.
        hidden: the Thinker's final-norm rows of *ids* from *first_position* on, [n, llm_hidden]; the last may lack.
        first_position: at or before the last tts_bos.
        tts_bos_id: as for `speech_span`.
        tts_eos_id: as for `speech_span`.
        stop_ids: as for `speech_span`.
    """
    num_hidden = first_position + hidden.shape[0]
    start, end = speech_span(
        ids, tts_bos_id=tts_bos_id, tts_eos_id=tts_eos_id, num_hidden=num_hidden, stop_ids=stop_ids
    )
    if start == end:
        return None
    spoken = torch.tensor(ids[start:end], dtype=torch.int64, device=talker.device)
    rows = talker.condition(spoken, hidden[start - first_position : end - first_position])
    return close_condition(talker, rows, has_text_eos=True)
