from pathlib import Path

import numpy as np
import pytest
import soundfile

from antiphon.core.errors import ConfigError
from antiphon.evals.items import Output, Truth
from antiphon.evals.outputs.folder import OutputWriter, file_name, read_outputs, read_run
from antiphon.evals.speech.sound import Sound, read_sound

FACTS = {"kind": "seed-tts", "model": "m"}


def output(item_id: str, **fields: object) -> Output:
    return Output(truth=Truth(item_id=item_id), **fields)  # type: ignore[arg-type]


def test_what_is_finished_stays_finished_and_failures_are_done_again(tmp_path: Path) -> None:
    writer = OutputWriter(tmp_path, FACTS)
    writer.add(output("a", text="yes"))
    writer.add(output("b", error="timed out"))
    again = OutputWriter(tmp_path, FACTS)
    assert list(again.finished) == ["a"]
    again.add(output("b", text="now"))
    assert [(found.truth.item_id, found.text) for found in read_outputs(tmp_path)] == [("a", "yes"), ("b", "now")]


@pytest.mark.parametrize("tail", ['{"id": "b", "text": "cut of', '{"id": "b", "text": "whole"}'])
def test_a_run_that_was_killed_within_a_line_goes_on(tmp_path: Path, tail: str) -> None:
    OutputWriter(tmp_path, FACTS).add(output("a", text="yes"))
    with (tmp_path / "outputs.jsonl").open("a") as file:
        file.write(tail)
    writer = OutputWriter(tmp_path, FACTS)
    writer.add(output("c", text="last"))
    names = [found.truth.item_id for found in read_outputs(tmp_path)]
    assert names == (["a", "c"] if tail.endswith("of") else ["a", "b", "c"])


def test_a_folder_of_another_run_is_refused_by_what_differs_unless_overwritten(tmp_path: Path) -> None:
    OutputWriter(tmp_path, FACTS).add(output("a"))
    with pytest.raises(ConfigError, match="model was 'm' and is 'n' now"):
        OutputWriter(tmp_path, {**FACTS, "model": "n"})
    writer = OutputWriter(tmp_path, {**FACTS, "model": "n"}, overwrite=True)
    assert writer.finished == {}
    assert read_run(tmp_path)["model"] == "n"


def test_sound_of_sixteen_bits_is_written_as_it_came(tmp_path: Path) -> None:
    values = np.array([0, 1, -1, 999, -32768, 32767], np.int16)
    sound = Sound(values.astype(np.float32) / 32768, 24_000)
    path = OutputWriter(tmp_path, FACTS).save_sound("a/b", sound)
    assert soundfile.read(path, dtype="int16")[0].tolist() == values.tolist()
    assert read_sound(path).rate_hz == 24_000
    assert path.parent == tmp_path / "wavs"


def test_names_of_files_are_safe_and_differ_if_ids_do() -> None:
    assert file_name("utt-1.x") == "utt-1.x"
    assert len({file_name(name) for name in ("a/b", "a b", "a_b", "../a_b")}) == 4
    assert "/" not in file_name("../../etc")


def test_a_folder_without_outputs_and_a_broken_line_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"outputs\.jsonl: No such file"):
        read_outputs(tmp_path)
    (tmp_path / "outputs.jsonl").write_text("\n")
    with pytest.raises(ConfigError, match="holds no outputs"):
        read_outputs(tmp_path)
    (tmp_path / "outputs.jsonl").write_text('nonsense\n{"id": "a"}\n')
    with pytest.raises(ConfigError, match=r"outputs\.jsonl:1: not JSON"):
        read_outputs(tmp_path)
    (tmp_path / "run.json").write_text("[]")
    with pytest.raises(ConfigError, match="must be an object"):
        read_run(tmp_path)
