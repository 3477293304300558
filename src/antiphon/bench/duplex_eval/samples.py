"""One sample of the data set, from a row as the data set has it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from antiphon.bench.duplex_eval.splits import PR_TASKS, Family, Task, family_of
from antiphon.core.errors import ConfigError

Media = Path | bytes


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A video with sound, a spoken instruction on the same time line, and what a good model says.

    Attributes:
        reminders_s: when something is due, at most two.
        duration_s: of the video, as the data set says it; None if it does not.
    """

    sample_id: str
    split: str
    video: Media
    question_audio: Media | None
    question: str
    answers: tuple[str, ...]
    reminders_s: tuple[float, ...]
    duration_s: float | None

    @property
    def family(self) -> Family:
        return family_of(self.split)

    @property
    def task(self) -> Task | None:
        return PR_TASKS.get(self.split)


def read_sample(row: Mapping[str, object], split: str, media_root: Path, where: str) -> Sample:
    """The sample of *row*. Media are names below *media_root*, absolute names, or bytes inside the row.

    Raises:
        ConfigError: a field is missing or cannot be used.
    """
    sample_id = _text(row.get("id"))
    if not sample_id or Path(sample_id).name != sample_id:
        raise ConfigError(f"{where}: id {row.get('id')!r} cannot be the name of a file")
    video = _media(row.get("video"), media_root)
    if video is None:
        raise ConfigError(f"{where}: sample {sample_id} has no video")
    return Sample(
        sample_id=sample_id,
        split=split,
        video=video,
        question_audio=_media(row.get("question_audio"), media_root),
        question=_text(row.get("question_text")),
        answers=tuple(text for text in (_text(row.get(name)) for name in ("answer1", "answer2")) if text),
        reminders_s=tuple(
            time_s for time_s in (_seconds(row.get(name)) for name in ("reminder1", "reminder2")) if time_s is not None
        ),
        duration_s=_seconds(row.get("video_duration")),
    )


def _media(value: object, root: Path) -> Media | None:
    if isinstance(value, dict):  # as Parquet holds media: the content, or where it lay
        value = value.get("bytes") or value.get("path")
    if isinstance(value, bytes):
        return value
    return root / Path(value).expanduser() if isinstance(value, str) and value else None


def _text(value: object) -> str:
    return str(value).strip() if isinstance(value, (str, int)) and not isinstance(value, bool) else ""


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or value in (None, ""):
        return None
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return seconds if seconds >= 0 else None
