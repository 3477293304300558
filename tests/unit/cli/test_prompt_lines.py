import json
from pathlib import Path

import pytest

from antiphon.cli.prompt_lines import read_prompt_lines
from antiphon.core.errors import PromptError


def write(folder: Path, *lines: object) -> Path:
    path = folder / "p.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return path


def test_lines_become_prompts_with_media_beside_the_file(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {"prompt": "one", "system": "s", "images": ["i.png"], "audios": ["a.wav", "b.wav"], "video": "v.mp4"},
        "",
        {"prompt": "two", "modalities": ["text"], "sampling": {"seed": 3}, "output": "two.wav", "ref_audio": "r.wav"},
    )
    first, second = read_prompt_lines(path, modalities=["text", "audio"])
    system, user = first.prompt["messages"]  # type: ignore[misc]
    assert system == {"role": "system", "content": "s"}
    assert [part["type"] for part in user["content"]] == ["image", "audio", "audio", "video", "text"]
    assert user["content"][0]["image"] == str(tmp_path / "i.png")
    assert (first.prompt["modalities"], first.prompt["ref_audio"], first.number) == (["text", "audio"], None, 1)
    assert (second.number, second.where, second.output) == (3, f"{path}:3", "two.wav")
    assert second.prompt["ref_audio"] == str(tmp_path / "r.wav")
    assert second.sampling == {"seed": 3}


def test_media_of_messages_are_beside_the_file_too(tmp_path: Path) -> None:
    content = [{"type": "image", "image": "i.png"}, {"type": "text", "text": "hi"}]
    (line,) = read_prompt_lines(write(tmp_path, {"messages": [{"role": "user", "content": content}]}), modalities=[])
    (message,) = line.prompt["messages"]  # type: ignore[misc]
    assert message["content"][0] == {"type": "image", "image": str(tmp_path / "i.png")}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{bad", "not JSON"),
        ([1], "each line must be an object"),
        ({"promt": "x"}, "unknown key 'promt'; known: prompt, system"),
        ({"prompt": " "}, "neither a prompt nor media"),
        ({"prompt": 5}, "must be strings"),
        ({"prompt": "x", "images": [5]}, "images is 5; it must be a path"),
        ({"prompt": "x", "sampling": []}, "sampling is list"),
        ({"prompt": "x", "output": 5}, "output is 5"),
        ({"prompt": "x", "messages": []}, "'prompt' does not go with 'messages'"),
    ],
)
def test_a_bad_line_is_named_by_file_and_line(tmp_path: Path, line: object, reason: str) -> None:
    path = write(tmp_path, {"prompt": "fine"}, line)
    with pytest.raises(PromptError, match=f"p.jsonl:2: .*{reason}"):
        read_prompt_lines(path, modalities=["text"])


def test_a_file_without_prompts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match="holds no prompts"):
        read_prompt_lines(write(tmp_path, "", " "), modalities=["text"])
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PromptError, match="not UTF-8"):
        read_prompt_lines(tmp_path / "binary", modalities=["text"])
    with pytest.raises(PromptError, match="No such file"):
        read_prompt_lines(tmp_path / "absent", modalities=["text"])
