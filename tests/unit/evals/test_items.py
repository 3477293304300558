from dataclasses import replace
from pathlib import Path

from antiphon.evals.items import Truth


def test_a_digest_tells_apart_whatever_answers_are_held_against(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"one")
    (tmp_path / "b.wav").write_bytes(b"two")
    (tmp_path / "c.wav").write_bytes(b"one")
    truth = Truth(item_id="x", target="Hi", reference=tmp_path / "a.wav", gold="A", groups={"kind": "k"})
    others = [
        replace(truth, target="Ho"),
        replace(truth, reference=tmp_path / "b.wav"),
        replace(truth, reference=tmp_path / "none.wav"),
        replace(truth, gold="B"),
        replace(truth, language="zh"),
    ]
    assert len({truth.digest, *(other.digest for other in others)}) == 6
    assert replace(truth, reference=tmp_path / "c.wav").digest == truth.digest
