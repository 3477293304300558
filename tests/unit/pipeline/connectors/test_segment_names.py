import os
import subprocess
import sys
from pathlib import Path

from antiphon.pipeline.connectors.segment_names import (
    create_segment,
    new_segment_name,
    open_segment,
    process_start_ticks,
    reap_segments,
)


def test_a_segment_of_a_killed_process_is_reaped(tmp_path: Path) -> None:
    script = (
        "import os, pathlib, sys\n"
        "from antiphon.pipeline.connectors.segment_names import create_segment, new_segment_name\n"
        "create_segment(new_segment_name('edge'), 64, pathlib.Path(sys.argv[1]))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    (left,) = tmp_path.iterdir()

    assert reap_segments(tmp_path) == [left.name]
    assert not list(tmp_path.iterdir())


def test_a_segment_of_a_living_process_stays(tmp_path: Path) -> None:
    name = new_segment_name("edge")
    descriptor = create_segment(name, 64, tmp_path)
    assert reap_segments(tmp_path) == []
    os.close(descriptor)


def test_a_reused_process_id_does_not_protect_a_segment(tmp_path: Path) -> None:
    ticks = process_start_ticks(os.getpid())
    assert ticks is not None
    (tmp_path / f"antiphon-{os.getpid()}-{ticks - 1}-edge-00").touch()
    assert len(reap_segments(tmp_path)) == 1


def test_a_locked_segment_stays_though_its_owner_cannot_be_seen(tmp_path: Path) -> None:
    name = f"antiphon-{2**22 + 1}-5-edge-00"  # a process of another container
    first = create_segment(name, 64, tmp_path)
    second = open_segment(name, tmp_path)
    os.close(first)
    assert reap_segments(tmp_path) == []
    os.close(second)
    assert reap_segments(tmp_path) == [name]


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    for name in ("antiphon-notes", "antiphon-a-b-c-d", "psm_1234", f"antiphonx-{2**22 + 1}-5-e-0"):
        (tmp_path / name).touch()
    assert reap_segments(tmp_path) == []
    assert len(list(tmp_path.iterdir())) == 4


def test_a_name_tells_its_owner_and_edge(tmp_path: Path) -> None:
    parts = new_segment_name("w0.w1.talker").split("-")
    assert parts[:4] == ["antiphon", str(os.getpid()), str(process_start_ticks(os.getpid())), "w0.w1.talker"]
    assert process_start_ticks(2**22 + 1) is None
