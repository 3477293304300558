"""Data sets read from folders and files."""

import io
import json
import wave
from pathlib import Path

import numpy as np
import pytest

from antiphon.bench.datasets.catalogue import open_dataset
from antiphon.bench.datasets.daily_omni import DailyOmniOptions, read_daily_omni
from antiphon.bench.datasets.interleave import chosen_pairs
from antiphon.bench.datasets.json_lines import JsonLinesOptions, read_json_lines
from antiphon.bench.datasets.made_media import make_video
from antiphon.bench.datasets.seed_tts import SeedTtsOptions, read_seed_tts
from antiphon.core.errors import ConfigError, MediaError


def write_wav(path: Path) -> None:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(16_000)
        writer.writeframes(bytes(3200))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.getvalue())


@pytest.fixture
def seed_tts(tmp_path: Path) -> Path:
    write_wav(tmp_path / "en" / "prompt" / "one.wav")
    (tmp_path / "en" / "meta.lst").write_text(
        "u1|Reference words.|prompt/one.wav|Say this.\n\nu2|Reference words.|prompt/one.wav|And this.\n"
    )
    return tmp_path


def test_seed_tts_rows_carry_voice_and_text(seed_tts: Path) -> None:
    first, second = read_seed_tts(SeedTtsOptions(root=seed_tts, output_len_tokens=99))
    assert [message["role"] for message in first.messages] == ["system", "user"]
    assert first.messages[1]["content"] == first.speech_text == "Say this."
    assert second.speech_text == "And this."
    fields = first.fields
    assert str(fields["ref_audio"]).startswith("data:audio/x-wav;base64,UklGR") or str(fields["ref_audio"]).startswith(
        "data:audio/wav;base64,UklGR"
    )
    assert (fields["ref_text"], fields["task_type"], fields["language"]) == ("Reference words.", "Base", "English")
    assert (fields["max_new_tokens"], fields["modalities"]) == (99, ["text", "audio"])


def test_recordings_can_go_by_address(seed_tts: Path) -> None:
    first, _ = read_seed_tts(SeedTtsOptions(root=seed_tts, is_inline=False))
    assert first.fields["ref_audio"] == (seed_tts / "en" / "prompt" / "one.wav").resolve().as_uri()


def test_a_seed_tts_folder_that_is_not_right_is_named(seed_tts: Path) -> None:
    with pytest.raises(ConfigError, match=r"zh/meta\.lst"):
        read_seed_tts(SeedTtsOptions(root=seed_tts, locale="zh"))
    with pytest.raises(ConfigError, match="--seed-tts-locale"):
        read_seed_tts(SeedTtsOptions(root=seed_tts, locale="fr"))
    (seed_tts / "en" / "meta.lst").write_text("u1|text|missing.wav|Say this.\n")
    with pytest.raises(MediaError, match=r"missing\.wav: no such file"):
        read_seed_tts(SeedTtsOptions(root=seed_tts))
    (seed_tts / "en" / "meta.lst").write_text("u1|text\n")
    with pytest.raises(ConfigError, match=r"meta\.lst:1"):
        read_seed_tts(SeedTtsOptions(root=seed_tts))


@pytest.fixture
def daily_omni(tmp_path: Path) -> DailyOmniOptions:
    folder = tmp_path / "Videos" / "clip1"
    write_wav(folder / "clip1_audio.wav")
    (folder / "clip1_video.mp4").write_bytes(make_video(32, 32, 75, np.random.default_rng(0)))
    rows = [
        {"video_id": "clip1", "Question": "What is seen?", "Choice": ["A. Sea", "B. Sky"], "Answer": "A"},
        {"video_id": "clip1", "Question": "What is heard?", "Choice": ["A. Wind", "B. Rain"], "Answer": "B"},
    ]
    (tmp_path / "qa.json").write_text(json.dumps(rows))
    return DailyOmniOptions(question_file=tmp_path / "qa.json", video_folder=tmp_path / "Videos")


def kinds(request) -> list[str]:
    return [part["type"] for part in request.messages[-1]["content"]]


def test_daily_omni_sends_clip_sound_and_question(daily_omni: DailyOmniOptions) -> None:
    first, second = read_daily_omni(daily_omni)
    assert kinds(first) == ["video_url", "audio_url", "text"]
    assert first.messages[-1]["content"][0]["video_url"]["url"].startswith("file:///")  # type: ignore[index]
    assert "What is heard?\nA. Wind\nB. Rain\n" in second.speech_text
    assert first.max_tokens == 256


@pytest.mark.parametrize(("mode", "found"), [("visual", ["video_url", "text"]), ("audio", ["audio_url", "text"])])
def test_the_input_mode_leaves_media_out(daily_omni: DailyOmniOptions, mode: str, found: list[str]) -> None:
    options = DailyOmniOptions(
        question_file=daily_omni.question_file, video_folder=daily_omni.video_folder, input_mode=mode, is_inline=True
    )
    assert kinds(read_daily_omni(options)[0]) == found


def test_interleaving_sends_a_frame_for_each_second(daily_omni: DailyOmniOptions) -> None:
    options = DailyOmniOptions(
        question_file=daily_omni.question_file, video_folder=daily_omni.video_folder, pack_mode="minicpm-interleave"
    )
    (first, _) = read_daily_omni(options)
    assert kinds(first) == ["image_url"] * 3 + ["text"]  # 2.5 s without sound
    assert first.fields["mm_processor_kwargs"] == {"max_slice_nums": 1, "use_image_id": False}
    assert [message["role"] for message in first.messages] == ["user"]


def test_long_clips_keep_sixty_four_seconds_from_first_to_last() -> None:
    found = list(chosen_pairs(200))
    assert (len(found), found[0], found[-1]) == (64, 0, 199)
    assert found == sorted(set(found))
    assert list(chosen_pairs(3)) == [0, 1, 2]


@pytest.mark.parametrize(
    "rows", ["{", "[]", '[{"video_id": "x"}]', '[{"video_id": "../x", "Question": "", "Choice": []}]']
)
def test_other_question_files_are_refused(daily_omni: DailyOmniOptions, rows: str) -> None:
    daily_omni.question_file.write_text(rows)
    with pytest.raises(ConfigError, match=r"qa\.json"):
        read_daily_omni(daily_omni)


def write_lines(folder: Path, *lines: object) -> Path:
    path = folder / "requests.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def test_lines_are_prompts_with_media_or_whole_messages(tmp_path: Path) -> None:
    write_wav(tmp_path / "a.wav")
    path = write_lines(
        tmp_path,
        {"prompt": "Hi", "system": "Be kind.", "output_tokens": 5, "extra_body": {"modalities": ["text"]}},
        "",
        {"prompt": "What?", "audios": "a.wav", "images": ["https://example.org/i.png"]},
        {"messages": [{"role": "user", "content": "Hello"}]},
    )
    first, second, third = read_json_lines(JsonLinesOptions(path=path, output_len_tokens=64))
    assert first.messages == ({"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"})
    assert (first.max_tokens, second.max_tokens) == (5, 64)
    assert first.fields == {"modalities": ["text"]}
    assert kinds(second) == ["image_url", "audio_url", "text"]
    assert third.messages == ({"role": "user", "content": "Hello"},)


@pytest.mark.parametrize(
    "line",
    ["{", "[1]", {}, {"prompt": 3}, {"promt": "x"}, {"messages": []}, {"messages": [{}], "prompt": "x"},
     {"prompt": "x", "output_tokens": 0}, {"prompt": "x", "images": [4]}],
)  # fmt: skip
def test_other_lines_are_refused_by_number(tmp_path: Path, line: object) -> None:
    with pytest.raises(ConfigError, match=r"requests\.jsonl:1"):
        read_json_lines(JsonLinesOptions(path=write_lines(tmp_path, line)))


def test_a_short_data_set_starts_over_or_is_sent_once(tmp_path: Path) -> None:
    path = write_lines(tmp_path, *({"prompt": word} for word in "abc"))

    def prompts(count: int, *, is_shuffled: bool = False, is_repeated: bool = True) -> str:
        source = open_dataset(JsonLinesOptions(path=path), seed=3, is_shuffled=is_shuffled, is_repeated=is_repeated)
        return "".join(request.speech_text for request in source(count, 1))

    assert prompts(5) == "abcab"
    assert prompts(5, is_repeated=False) == "abc"
    shuffled = prompts(6, is_shuffled=True)
    assert sorted(shuffled[:3]) == list("abc")
    assert shuffled[:3] == shuffled[3:]
