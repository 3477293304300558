from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from antiphon import Omni, SamplingParams
from antiphon.config.load import load_deploy
from antiphon.core.errors import ConfigError, EngineError, PromptError
from antiphon.core.sampling import DEFAULT_STAGE_PARAMS
from antiphon.pipeline.events import AudioChunk, Finished, TextDelta

SHORT = (SamplingParams(temperature=1.0, max_tokens=12, seed=1), *DEFAULT_STAGE_PARAMS[1:])
PROMPTS = [f"Say {word}" for word in ("one", "two", "three", "four", "five")]


@pytest.fixture(scope="module")
def eager(tiny_checkpoint: Path) -> Iterator[Omni]:
    with Omni(tiny_checkpoint, device="cpu", engine="eager", voice_in_chunks=True) as omni:
        yield omni


@pytest.mark.parametrize("handoff", ["span", "stream"])
def test_both_engines_give_the_same_answers_to_the_same_seeds(tiny_omni: Omni, eager: Omni, handoff: str) -> None:
    for prompt in PROMPTS[:2]:
        got, wanted = (list(omni.stream(prompt, SHORT, handoff=handoff)) for omni in (tiny_omni, eager))  # type: ignore[arg-type]
        ends = [events[-1] for events in (got, wanted)]
        assert all(isinstance(end, Finished) for end in ends)
        assert ends[0].token_ids == ends[1].token_ids  # type: ignore[union-attr]
        assert ends[0].codec_ids == ends[1].codec_ids  # type: ignore[union-attr]
        sounds = [
            np.concatenate([event.samples for event in events if isinstance(event, AudioChunk)])
            for events in (got, wanted)
        ]
        assert np.abs(sounds[0] - sounds[1]).max() < 2e-3


def test_a_span_is_voiced_while_it_is_drawn(tiny_omni: Omni) -> None:
    counted: list[int] = []
    events = list(tiny_omni.stream("Hello", SHORT, handoff="span", report_codes=counted.append))
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert sum(isinstance(event, AudioChunk) for event in events) > len(finished.codec_ids) // 25
    assert counted[-1] == len(finished.codec_ids)
    assert counted == sorted(counted)


def test_many_prompts_are_answered_together_as_they_would_be_alone(tiny_omni: Omni, eager: Omni) -> None:
    together, alone = (
        {output.request_id.split("_")[0] + output.final_output_type: output.outputs[0].token_ids for output in outputs}
        for outputs in (omni.generate(PROMPTS, SHORT, use_tqdm=False) for omni in (tiny_omni, eager))
    )
    assert together == alone
    assert len(together) == 2 * len(PROMPTS)


def test_an_aborted_request_fails_its_batch_and_the_next_one_runs(tiny_omni: Omni) -> None:
    outputs = tiny_omni.generate(PROMPTS, SHORT, use_tqdm=False, py_generator=True)
    first = next(outputs)
    others = [f"{number}_" for number in range(5) if not first.request_id.startswith(f"{number}_")]
    assert others
    running = list(tiny_omni._backend._engine.orchestrator._flights)  # type: ignore[attr-defined]
    tiny_omni.abort(running)
    if running:
        with pytest.raises(EngineError, match="aborted"):
            list(outputs)
    assert tiny_omni.generate("Hello", SHORT, use_tqdm=False)


def test_a_closed_stream_leaves_nothing_running(tiny_omni: Omni) -> None:
    events = tiny_omni.stream("Hello", SHORT)
    assert isinstance(next(events), TextDelta)
    events.close()  # type: ignore[attr-defined]
    assert tiny_omni._backend._engine.orchestrator.num_requests == 0  # type: ignore[attr-defined]


def test_the_layout_is_in_force(tiny_checkpoint: Path) -> None:
    overrides = (
        '{"0": {"limit_mm_per_prompt": {"image": 0}, "default_sampling_params": {"max_tokens": 3}, '
        '"max_num_seqs": 2, "max_model_len": 600}}'
    )
    with Omni(tiny_checkpoint, device="cpu", stage_overrides=overrides, with_speech=False) as omni:
        (text,) = omni.generate({"prompt": "Hello", "modalities": ["text"]}, use_tqdm=False)
        assert len(text.outputs[0].token_ids) == 3
        with pytest.raises(PromptError, match="at most 0"):
            omni.generate({"prompt": "Hello", "multi_modal_data": {"image": "a.png"}}, use_tqdm=False)
        with pytest.raises(PromptError, match="the model's context is 600"):
            omni.generate({"prompt": "a", "modalities": ["text"]}, [SamplingParams(max_tokens=590)] * 3)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"engine": "fast"}, "known: auto, threads, .*eager"),
        ({"stage_overrides": "{"}, "stage-overrides"),
        ({"deploy_config": "nowhere.yaml"}, "nowhere.yaml"),
        ({"deploy_config": load_deploy("cpu.yaml", platform="cpu"), "stage_overrides": "{}"}, "loaded deploy"),
        ({"engine": "threads", "stage_overrides": '{"0": {"env": {"A": "1"}}}'}, "env is set per worker"),
    ],
)
def test_a_wrong_setting_is_refused(tiny_checkpoint: Path, fields: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Omni(tiny_checkpoint, device="cpu", **fields)  # type: ignore[arg-type]
