"""`daily-omni`: four-way questions about short videos with sound, from a folder in Daily-Omni's layout.

A question file (`qa.json`) and a folder with one folder per video id, which holds `ID_video.mp4` and `ID_audio.wav`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from antiphon.bench.bench_request import BenchRequest, text_part, url_part
from antiphon.bench.datasets.interleave import interleaved_parts
from antiphon.bench.datasets.media_files import media_url
from antiphon.core.errors import ConfigError

DEFAULT_OUTPUT_LEN = 256
INPUT_MODES = ("all", "visual", "audio")
PACK_MODES = ("qwen", "minicpm-interleave")
_SYSTEM_PROMPT = "You watch and listen to the user's video and answer questions about it."
_INSTRUCTION = "Answer with the letter of the right choice only: A, B, C or D."


@dataclass(frozen=True, kw_only=True)
class DailyOmniOptions:
    """`pack_mode` qwen sends a clip and its sound as two media, minicpm-interleave a frame and a second in turn."""

    question_file: Path
    video_folder: Path
    is_inline: bool = False
    input_mode: str = "all"
    pack_mode: str = "qwen"
    output_len_tokens: int = DEFAULT_OUTPUT_LEN

    def __post_init__(self) -> None:
        if self.input_mode not in INPUT_MODES:
            raise ConfigError(f"--daily-omni-input-mode is {self.input_mode!r}; known: {', '.join(INPUT_MODES)}")
        if self.pack_mode not in PACK_MODES:
            raise ConfigError(f"--daily-omni-pack-mode is {self.pack_mode!r}; known: {', '.join(PACK_MODES)}")
        if self.pack_mode == "minicpm-interleave" and self.input_mode != "all":
            raise ConfigError("--daily-omni-pack-mode minicpm-interleave goes with --daily-omni-input-mode all only")


@dataclass(frozen=True)
class Question:
    """One row of the question file. Its answer's letter and its groups are empty where the file lacks them."""

    video_id: str
    text: str
    choices: Sequence[str]
    answer: str = ""
    task_type: str = ""
    video_category: str = ""
    video_duration: str = ""


def read_daily_omni(options: DailyOmniOptions) -> list[BenchRequest]:
    """All questions, in the file's order.

    Raises:
        ConfigError: the question file is missing or not as it should be.
        MediaError: a clip is missing or cannot be decoded.
    """
    return daily_omni_requests(read_questions(options.question_file), options)


def daily_omni_requests(questions: Sequence[Question], options: DailyOmniOptions) -> list[BenchRequest]:
    """A request for each of *questions*; the media of a clip are read once. Raises MediaError as `read_daily_omni`."""
    packs: dict[str, Sequence[Mapping[str, object]]] = {}
    requests: list[BenchRequest] = []
    for question in questions:
        if question.video_id not in packs:
            packs[question.video_id] = _media_parts(question.video_id, options)
        requests.append(_request(question, packs[question.video_id], options))
    return requests


def _request(question: Question, media: Sequence[Mapping[str, object]], options: DailyOmniOptions) -> BenchRequest:
    text = "\n".join([question.text, *question.choices, _INSTRUCTION])
    is_interleaved = options.pack_mode == "minicpm-interleave"
    system: tuple[Mapping[str, object], ...] = (
        () if is_interleaved else ({"role": "system", "content": _SYSTEM_PROMPT},)
    )
    return BenchRequest(
        messages=(*system, {"role": "user", "content": [*media, text_part(text)]}),
        speech_text=text,
        prompt_len_tokens=len(text.split()),
        max_tokens=options.output_len_tokens,
        fields={
            "mm_processor_kwargs": {"max_slice_nums": 1, "use_image_id": False}
            if is_interleaved
            else {"use_audio_in_video": False}
        },
    )


def _media_parts(video_id: str, options: DailyOmniOptions) -> Sequence[Mapping[str, object]]:
    folder = options.video_folder / video_id
    video, audio = folder / f"{video_id}_video.mp4", folder / f"{video_id}_audio.wav"
    if options.pack_mode == "minicpm-interleave":
        return interleaved_parts(video)
    parts: list[Mapping[str, object]] = []
    if options.input_mode in ("all", "visual"):
        parts.append(url_part("video", media_url(video, is_inline=options.is_inline)))
    if options.input_mode in ("all", "audio"):
        parts.append(url_part("audio", media_url(audio, is_inline=options.is_inline)))
    return parts


def read_questions(path: Path) -> list[Question]:
    """All rows of a question file. Raises ConfigError if it is missing or not as it should be."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; give --daily-omni-qa-json or --dataset-path") from None
    except ValueError as error:
        raise ConfigError(f"{path}: not JSON ({error})") from None
    if not isinstance(rows, list) or not rows:
        raise ConfigError(f"{path}: must be a list of questions")
    questions: list[Question] = []
    for place, row in enumerate(rows):
        found = row if isinstance(row, dict) else {}
        video_id, text, choices = found.get("video_id"), found.get("Question"), found.get("Choice")
        if not isinstance(video_id, str) or not isinstance(text, str) or not isinstance(choices, list):
            raise ConfigError(f"{path}: row {place} needs video_id, Question and Choice")
        if Path(video_id).name != video_id:
            raise ConfigError(f"{path}: row {place}: video_id {video_id!r} is not a folder's name")
        facts = [found.get(key) for key in ("Answer", "Type", "video_category", "video_duration")]
        words = ["" if fact is None else str(fact) for fact in facts]
        questions.append(Question(video_id, text, [str(choice) for choice in choices], *words))
    return questions
