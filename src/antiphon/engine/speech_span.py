"""Which ids of a chat sequence are spoken."""

from collections.abc import Collection, Sequence


def speech_span(
    ids: Sequence[int], *, tts_bos_id: int, tts_eos_id: int, num_hidden: int, stop_ids: Collection[int] = ()
) -> tuple[int, int]:
    """The half-open span of *ids* that the Talker speaks: after the last tts_bos, up to the last tts_eos behind it.

    Args:
        ids: prompt and answer.
        tts_bos_id: `<|tts_bos|>`; without one nothing is spoken.
        tts_eos_id: `<|tts_eos|>`; without one behind the start the span runs to the end.
        num_hidden: ids (from the first) that have a hidden row. The last sampled id usually has none, and an id without
            its row cannot be spoken; the reference fails here when the answer ended without tts_eos.
        stop_ids: terminators of the answer, dropped at the end of the span.
    """
    start = _last(ids, tts_bos_id) + 1
    if start == 0:
        return (0, 0)
    eos = _last(ids, tts_eos_id)
    end = min(eos if eos >= start else len(ids), num_hidden)
    while end > start and ids[end - 1] in stop_ids:
        end -= 1
    return (start, max(start, end))


def _last(ids: Sequence[int], wanted: int) -> int:
    return next((index for index in range(len(ids) - 1, -1, -1) if ids[index] == wanted), -1)
