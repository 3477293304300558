"""Video-MME: four-way questions about videos from seconds to an hour, with or without their subtitles."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from antiphon.bench.bench_request import BenchRequest, text_part, url_part
from antiphon.bench.datasets.interleave import MAX_PAIRS, interleaved_parts
from antiphon.bench.datasets.media_files import media_url
from antiphon.core.errors import ConfigError
from antiphon.evals.datasets.frames import MAX_FRAMES, MAX_S, frame_parts
from antiphon.evals.datasets.subtitles import read_subtitles
from antiphon.evals.datasets.table_rows import Row, read_rows, text_of, texts_of
from antiphon.evals.items import EvalItem, Truth

DEFAULT_OUTPUT_LEN = 256
FRAMES, INTERLEAVE, WHOLE = "minicpm-frames", "minicpm-interleave", "video_url"
DURATIONS = ("all", "short", "medium", "long")
_MOST_FRAMES = {FRAMES: MAX_FRAMES, INTERLEAVE: MAX_PAIRS, WHOLE: 0}
_GROUPS = ("duration", "domain", "sub_category", "task_type")
_LETTERS = "ABCD"
_LABEL = re.compile(r"\s*([A-D])\s*[.):]\s*")
_INSTRUCTION = "Answer with the letter of the right choice only: A, B, C or D."


@dataclass(frozen=True, kw_only=True)
class VideoMmeOptions:
    """Where the data set lies, and how a video is sent: its frames, frames and seconds of sound in turn, or the file.

    Attributes:
        subtitle_folder: of `VIDEOID.srt`, which go before the question; None: they are left out.
        max_frames: None: what the pack allows.
    """

    table: Path
    video_folder: Path
    subtitle_folder: Path | None = None
    pack_mode: str = FRAMES
    max_frames: int | None = None
    duration: str = "all"
    is_inline: bool = False
    output_len_tokens: int = DEFAULT_OUTPUT_LEN

    def __post_init__(self) -> None:
        if self.pack_mode not in _MOST_FRAMES:
            raise ConfigError(f"--pack-mode is {self.pack_mode!r}; known: {', '.join(_MOST_FRAMES)}")
        if self.duration not in DURATIONS:
            raise ConfigError(f"--duration is {self.duration!r}; known: {', '.join(DURATIONS)}")
        most = _MOST_FRAMES[self.pack_mode]
        if self.max_frames is not None and not 1 <= self.max_frames <= most:
            limit = f"takes 1 to {most}" if most else "sends the whole file"
            raise ConfigError(f"--max-frames is {self.max_frames}; {self.pack_mode} {limit}")


def video_mme_items(options: VideoMmeOptions) -> list[EvalItem]:
    """All questions of the chosen durations. Raises ConfigError if the table is not as it should be."""
    items = [_item(row, where, options) for where, row in read_rows(options.table)]
    items = [item for item in items if options.duration in ("all", item.truth.groups.get("duration"))]
    if not items:
        raise ConfigError(f"{options.table}: holds no question of duration {options.duration}")
    ids = [item.truth.item_id for item in items]
    if doubled := sorted({item_id for item_id in ids if ids.count(item_id) > 1}):
        raise ConfigError(f"{options.table}: question_id {doubled[0]!r} is there twice")
    return items


def plain_choices(choices: Sequence[str]) -> list[str]:
    """*choices* without the letters in front of them, which they lose only if all have the right ones."""
    labels = [_LABEL.match(choice) for choice in choices]
    if all(label and label[1] == letter for label, letter in zip(labels, _LETTERS, strict=False)):
        return [_LABEL.sub("", choice, count=1).strip() for choice in choices]
    return [choice.strip() for choice in choices]


def _item(row: Row, where: str, options: VideoMmeOptions) -> EvalItem:
    video_id, question_id = text_of(row, "videoID", where), text_of(row, "question_id", where)
    if Path(video_id).name != video_id:
        raise ConfigError(f"{where}: videoID {video_id!r} is not a file's name")
    choices = plain_choices(texts_of(row, "options", where))
    if len(choices) > len(_LETTERS):
        raise ConfigError(f"{where}: has {len(choices)} options; at most {len(_LETTERS)} have letters")
    gold = str(row.get("answer") or "").strip().upper()
    if gold and gold not in _LETTERS[: len(choices)]:
        raise ConfigError(f"{where}: answer {row.get('answer')!r} is none of {_LETTERS[: len(choices)]}")
    lettered = [f"{letter}. {choice}" for letter, choice in zip(_LETTERS, choices, strict=False)]
    text = "\n".join([text_of(row, "question", where), *lettered, _INSTRUCTION])
    groups = {name.replace("_", " "): str(row[name]) for name in _GROUPS if row.get(name)}
    return EvalItem(Truth(item_id=question_id, gold=gold, groups=groups), partial(_request, video_id, text, options))


def _request(video_id: str, text: str, options: VideoMmeOptions) -> BenchRequest:
    if options.subtitle_folder is not None and (said := read_subtitles(options.subtitle_folder / f"{video_id}.srt")):
        text = f"These are the subtitles of the video:\n{said}\n\n{text}"
    is_file = options.pack_mode == WHOLE
    return BenchRequest(
        messages=({"role": "user", "content": [*_media_parts(video_id, options), text_part(text)]},),
        speech_text=text,
        prompt_len_tokens=len(text.split()),
        max_tokens=options.output_len_tokens,
        fields={
            "mm_processor_kwargs": {"use_audio_in_video": False}
            if is_file
            else {"max_slice_nums": 1, "use_image_id": False}
        },
    )


def _media_parts(video_id: str, options: VideoMmeOptions) -> Sequence[Mapping[str, object]]:
    path = options.video_folder / f"{video_id}.mp4"
    if options.pack_mode == WHOLE:
        return [url_part("video", media_url(path, is_inline=options.is_inline))]
    if options.pack_mode == INTERLEAVE:
        return interleaved_parts(path, max_pairs=options.max_frames or MAX_PAIRS, max_s=MAX_S)
    return frame_parts(path, max_frames=options.max_frames or MAX_FRAMES)
