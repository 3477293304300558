"""The token runs that stand where an image or a clip goes, until embeddings overwrite their `<unk>` rows.

Source: model specification 2.3 (images), 2.5 and 2.6 (audio).
"""

from collections.abc import Sequence

from antiphon.audio.mel import HOP_SAMPLES, UNIT_SAMPLES
from antiphon.prompt.special_tokens import UNK_TOKEN, SpecialTokens

Span = tuple[int, int]  # first row, and the row after the last


def image_placeholder(grid: tuple[int, int] | None, num_queries: int, image_id: int | None = None) -> str:
    """Markup of one image: the whole picture, then its slices row by row.

    A newline stands between rows of slices, none between the picture and its first slice (a trap of the checkpoint).

    Args:
        grid: columns and rows of the slices; None for an image without slices.
        num_queries: rows of one picture or slice.
        image_id: running number of the image in the conversation; None leaves it out.
    """
    rows = UNK_TOKEN * num_queries
    number = "" if image_id is None else f"<image_id>{image_id}</image_id>"
    columns, num_rows = grid or (0, 0)
    slices = "\n".join([f"<slice>{rows}</slice>" * columns] * num_rows)
    return f"{number}<image>{rows}</image>{slices}"


def audio_placeholder(num_rows: Sequence[int]) -> str:
    """Markup of one clip, one bracketed run for each entry of *num_rows* (see `audio_runs`)."""
    return "".join(f"<|audio_start|>{UNK_TOKEN * rows}<|audio_end|>" for rows in num_rows)


def audio_runs(num_samples: int, *, pool_step: int, chunked: bool) -> list[int]:
    """Lengths of a clip's placeholder runs: one for the whole clip, or one per second of it if *chunked*.

    Counted from this part's own samples, also where clips of one message are merged before the encoder: the joint clip
    may then have a row more, which is dropped.
    """
    rows = num_audio_rows(-(-num_samples // HOP_SAMPLES), pool_step)
    if not chunked:
        return [rows]
    step = num_audio_rows(UNIT_SAMPLES // HOP_SAMPLES, pool_step)
    return [min(step, rows - start) for start in range(0, rows, step)]


def num_audio_rows(num_frames: int, pool_step: int) -> int:
    """Embeddings that the audio encoder makes of *num_frames* mel frames: halved by a convolution, then pooled."""
    num_halved = (num_frames - 1) // 2 + 1
    return (num_halved - pool_step) // pool_step + 1


def find_spans(ids: Sequence[int], special: SpecialTokens) -> list[Span]:
    """Where the `<unk>` rows of one placeholder lie, in order, counted from the placeholder's start."""
    opening = (special.image_start, special.slice_start, special.audio_start)
    closing = (special.image_end, special.slice_end, special.audio_end)
    starts = [place + 1 for place, token_id in enumerate(ids) if token_id in opening]
    ends = [place for place, token_id in enumerate(ids) if token_id in closing]
    return list(zip(starts, ends, strict=True))
