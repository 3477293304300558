from base64 import b64encode

import numpy as np
import pytest

from antiphon.bench.bench_request import BenchRequest
from antiphon.bench.duplex_load.clips import MadeSpeech, make_clips, read_clips, spoken_texts
from antiphon.bench.duplex_load.reader import EventReader
from antiphon.bench.duplex_load.result import DuplexResult, nearest_rank, render_duplex_result
from antiphon.bench.duplex_load.session import session_object
from antiphon.bench.duplex_load.settings import DuplexSettings
from antiphon.bench.duplex_load.summary import summarise_duplex
from antiphon.bench.duplex_load.table import render_duplex_sweep, render_duplex_table
from antiphon.bench.duplex_load.timeline import SessionRecord
from antiphon.bench.settings import Level
from antiphon.core.errors import ConfigError

SETTINGS = DuplexSettings(levels=(Level(max_concurrency=2, num_prompts=2),))


def session(delay_s):
    """Two seconds of input: listened to, then answered with a second of sound, each *delay_s* late."""
    record = SessionRecord(began_s=10.0, session_id="s")
    reader = EventReader(record, 2)
    reader.take({"type": "response.listen", "response": {"metadata": {"input_unit": 0}}}, 11.0 + delay_s)
    reader.take({"type": "response.created", "response_id": "r"}, 12.0 + delay_s)
    reader.take({"type": "response.speak", "response_id": "r", "metadata": {"input_unit": 1}}, 12.0 + delay_s)
    delta = b64encode(bytes(48_000)).decode()
    sound = {"type": "response.output_audio.delta", "response_id": "r", "delta": delta, "metadata": {"input_unit": 1}}
    reader.take(sound, 12.1 + delay_s)
    return record


def summary(*records):
    return summarise_duplex(records, duration_s=4.0, percents=(50, 90, 99), continuity_threshold_s=0.1)


def test_units_are_pooled_over_sessions_and_failures_left_out():
    found = summary(session(0.1), session(0.3), SessionRecord(began_s=0, error="resource_exhausted: full"))
    assert (found.completed, found.failed, found.errors) == (2, 1, ("resource_exhausted: full",))
    assert (found.num_units, found.num_units_answered, found.num_units_spoken) == (4, 4, 2)
    assert found.distributions["unit_decision"].median == pytest.approx(0.2)
    assert found.distributions["unit_first_audio"].mean == pytest.approx(0.3)
    assert (found.audio_duration_s, found.per_s(found.audio_duration_s)) == (2.0, 0.5)
    assert found.continuity_ok_rate == 1.0


def test_late_units_are_counted():
    found = summary(session(1.5))
    assert found.num_units_late == 2
    assert found.distributions["unit_lateness"].percentiles[-1][1] == pytest.approx(0.6, abs=0.01)


def test_the_table_says_what_scripts_look_for():
    text = render_duplex_table(summary(session(0.1)), Level(max_concurrency=1, num_prompts=1))
    for label in (
        "Successful requests:                     1",
        "Maximum request concurrency:             1",
        "Units late:                              0",
        "P99 UNIT_DECISION (ms):                  100.00",
        "Mean AUDIO_RTF:",
        "Total audio duration generated(s):       1.00",
    ):
        assert label in text
    assert max(map(len, text.splitlines())) <= 50
    assert "P50" not in text


def test_the_sweep_has_a_line_for_each_number_of_sessions():
    levels = [(Level(max_concurrency=n, num_prompts=n), summary(session(0.1))) for n in (1, 16)]
    rows = render_duplex_sweep(levels).splitlines()
    assert [row.split()[0] for row in rows] == ["sessions", "1", "16"]
    assert "100.0/100.0" in rows[1]


def test_the_result_has_the_keys_of_duplex_runs():
    level = Level(max_concurrency=2, num_prompts=2)
    records = [session(0.1), session(0.3)]
    result = DuplexResult(level=level, summary=summary(*records), records=records, server={})
    document = render_duplex_result([result], SETTINGS, {"label": "x"}, is_detailed=True)
    assert document["p99_unit_decision_ms"] == pytest.approx(300, abs=1)
    assert document["duplex_stream_ttfp_ms"]["p50"] == pytest.approx(2200)
    assert document["duplex_stream_rtf"]["count"] == 2
    assert [item["ttfp_ms"] for item in document["duplex_request_metrics"]] == [pytest.approx(200), pytest.approx(400)]
    assert document["duplex_session_metrics"][0]["audio_turn_count"] == 1
    assert document["duplex_units"][0][0] == {
        "decision_ms": pytest.approx(100),
        "first_audio_ms": None,
        "lateness_ms": 0.0,
        "speaks": False,
    }
    several = render_duplex_result([result, result], SETTINGS, {}, is_detailed=False)
    assert len(several["levels"]) == 2
    assert "duplex_units" not in several["levels"][0]


def test_ranks_are_measured_values():
    assert nearest_rank([3.0, 1.0, 2.0]) == {"count": 3, "mean": 2.0, "p50": 2.0, "p90": 3.0, "p99": 3.0}
    assert nearest_rank([]) is None


def test_made_speech_talks_and_pauses_and_can_be_repeated():
    made = make_clips(MadeSpeech(session_s=10, talk_s=2, pause_s=3), seed=1)
    first, second = made(2, 1)
    assert made(2, 1)[0].pcm == first.pcm
    assert first.pcm not in (second.pcm, made(1, 2)[0].pcm)
    loudness = np.abs(np.frombuffer(first.pcm, "<i2").reshape(10, -1).astype(float)).mean(axis=1)
    assert [bool(value > 100) for value in loudness] == [True, True, False, False, False] * 2
    assert first.duration_s == 10


@pytest.mark.parametrize("fields", [{"session_s": 0}, {"talk_s": -1}, {"session_s": 1e9}])
def test_impossible_speech_is_refused(fields):
    with pytest.raises(ConfigError, match="--duplex-session-s"):
        MadeSpeech(**fields)


def test_recordings_fill_their_sessions(tmp_path, encode_audio, tone):
    for name in ("a.wav", "b.wav"):
        (tmp_path / name).write_bytes(encode_audio(tone(1.5)))
    clips = read_clips(tmp_path, 4.0, 0, is_shuffled=False)(3, 1)
    assert [clip.duration_s for clip in clips] == [4.0] * 3
    with pytest.raises(ConfigError, match="no sound files"):
        read_clips(tmp_path / "nowhere", 4.0, 0, is_shuffled=False)


def test_a_text_is_spoken_behind_silence():
    request = BenchRequest(
        messages=(), speech_text="Say it.", prompt_len_tokens=2, max_tokens=8, fields={"ref_audio": "data:x"}
    )
    (clip,) = spoken_texts(lambda count, place: [request] * count)(1, 1)
    assert clip.ends_with_answer
    assert set(clip.pcm) == {0}
    session = session_object(clip, SETTINGS, "m")
    assert session["ref_audio"] == "data:x"
    assert session["extra_body"] == {
        "auto_response": True,
        "force_listen_count": 0,
        "duplex_initial_user_text": "Say it.",
    }
