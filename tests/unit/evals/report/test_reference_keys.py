from eval_scores import scored

from antiphon.evals.report.reference_keys import reference_keys


def test_speech_has_the_references_keys() -> None:
    items = [
        scored("a", {"wer": 0.0, "sim": 0.8, "audio_s": 1.0}),
        scored("b", {"wer": 0.5, "audio_s": 1.0}),
        scored("c", {}, error="HTTP 500"),
        scored("d", {}, problems={"words": "it has no sound"}),
        scored("e", {"audio_s": 1.0}, problems={"words": "too loud"}),
    ]
    assert reference_keys("seed-tts", items) == {
        "seed_tts_content_error_mean": 0.25,
        "seed_tts_content_error_median": 0.25,
        "seed_tts_content_error_evaluated": 2,
        "seed_tts_request_failed": 1,
        "seed_tts_no_pcm": 1,
        "seed_tts_asr_failed": 1,
        "seed_tts_sim_mean": 0.8,
        "seed_tts_sim_evaluated": 1,
    }


def test_choices_count_failures_apart() -> None:
    items = [
        scored("a", {"accuracy": 1.0}, details={"letter": "A"}),
        scored("b", {"accuracy": 0.0}, details={"letter": ""}),
        scored("c", {}, error="HTTP 500"),
    ]
    found = reference_keys("video-mme", items)
    assert found["videomme_accuracy"] == 0.5
    assert found["videomme_accuracy_incl_http_fail"] == 1 / 3
    assert (found["videomme_correct"], found["videomme_parse_failed"], found["videomme_request_failed"]) == (1, 1, 1)
    assert reference_keys("daily-omni", items)["daily_omni_accuracy"] == 0.5


def test_other_evaluations_have_none_and_nothing_has_no_mean() -> None:
    assert reference_keys("wer", []) == {}
    assert reference_keys("seed-tts", [])["seed_tts_content_error_mean"] is None
