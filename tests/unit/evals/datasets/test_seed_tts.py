from pathlib import Path

import pytest

from antiphon.bench.datasets.seed_tts import SeedTtsOptions
from antiphon.core.errors import ConfigError, MediaError
from antiphon.evals.datasets.seed_tts import seed_tts_items

MINI = Path(__file__).parents[3] / "data" / "evals" / "seed_tts"


def test_items_know_the_words_and_the_voice_and_ask_for_them() -> None:
    items = seed_tts_items(SeedTtsOptions(root=MINI))
    assert [item.truth.item_id for item in items] == ["train", "box", "rain"]
    assert items[0].truth.target == "The train to the coast leaves at half past seven."
    assert items[1].truth.reference == MINI / "en" / "prompt-wavs" / "espeak.ogg"
    request = items[0].make_request()
    assert request.speech_text == items[0].truth.target
    assert request.fields["task_type"] == "Base"


def test_a_doubled_id_and_a_missing_recording_are_refused(tmp_path: Path) -> None:
    (tmp_path / "en").mkdir()
    (tmp_path / "en" / "v.wav").write_bytes(b"x")
    (tmp_path / "en" / "meta.lst").write_text("a|ref|v.wav|Hi\na|ref|v.wav|Ho\n")
    with pytest.raises(ConfigError, match="'a' is empty or doubled"):
        seed_tts_items(SeedTtsOptions(root=tmp_path))
    (tmp_path / "en" / "meta.lst").write_text("a|ref|none.wav|Hi\n")
    with pytest.raises(MediaError, match=r"none\.wav: no such file"):
        seed_tts_items(SeedTtsOptions(root=tmp_path))
