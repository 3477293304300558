from dataclasses import dataclass, field
from pathlib import Path

import pytest

from antiphon.cli import main as command_line
from antiphon.cli import serve_run
from antiphon.cli.serve_args import OwnFlags, read_serve_args
from antiphon.cli.serve_flags import IGNORED_FLAGS, REFUSED_FLAGS
from antiphon.cli.serve_run import ServePlan
from antiphon.core.errors import ConfigError

RECIPE = [
    "openbmb/MiniCPM-o-4_5",
    "--omni",
    "--trust-remote-code",
    "--chat-template",
    "/nowhere/minicpmo45_native.jinja",
    "--chat-template-content-format",
    "openai",
    "--host",
    "0.0.0.0",
    "--port",
    "8099",
]


@dataclass
class Caught:
    plans: list[ServePlan] = field(default_factory=list)

    @property
    def plan(self) -> ServePlan:
        return self.plans[-1]


@pytest.fixture
def caught(monkeypatch: pytest.MonkeyPatch) -> Caught:
    """What would be run."""
    found = Caught()
    monkeypatch.setattr(serve_run, "run", lambda plan, *, is_check: found.plans.append(plan))
    return found


def serve(*args: str) -> int:
    return command_line.main(["serve", *args])


def test_without_a_model_the_tiny_one_is_served(caught: Caught) -> None:
    assert serve() == 0
    assert (caught.plan.model, caught.plan.settings.port, caught.plan.settings.host) == ("tiny", 8099, "127.0.0.1")
    assert caught.plan.settings.api_keys == ()


def test_the_recipes_command_line_is_taken(caught: Caught) -> None:
    assert serve(*RECIPE) == 0
    plan = caught.plan
    assert (plan.model, plan.settings.host, plan.settings.chat_template) == ("openbmb/MiniCPM-o-4_5", "0.0.0.0", None)
    assert list(plan.ignored_flags) == ["--trust-remote-code", "--chat-template-content-format"]


def test_values_may_follow_one_another_or_be_repeated_or_be_a_json_list(caught: Caught) -> None:
    serve("m", "--served-model-name", "a", "b", "--api-key", "k1", "--api-key=k2", "--allowed-origins", '["x", "y"]')
    assert caught.plan.names == ("a", "b")
    assert caught.plan.settings.api_keys == ("k1", "k2")
    assert caught.plan.settings.cors.origins == ("x", "y")


def test_a_model_behind_a_list_is_not_swallowed(caught: Caught) -> None:
    serve("--api-key", "secret", "m")
    assert (caught.plan.model, caught.plan.settings.api_keys) == ("m", ("secret",))


def test_stage_keys_are_flags_too(caught: Caught) -> None:
    serve(
        *("--gpu-memory-utilization", "0.5", "--max-model-len=4096", "--enforce-eager", "--no-async-chunk"),
        *("--limit-mm-per-prompt", '{"image": 2}', "--max_num_seqs", "8", "--dtype", "bfloat16"),
    )
    assert caught.plan.engine_flags == {
        "gpu_memory_utilization": 0.5,
        "max_model_len": 4096,
        "enforce_eager": True,
        "async_chunk": False,
        "limit_mm_per_prompt": {"image": 2},
        "max_num_seqs": 8,
        "dtype": "bfloat16",
    }


@pytest.mark.parametrize(
    ("flag", "near"),
    [("--prot", "--port"), ("--served-model-names", "--served-model-name"), ("--max-model-length", "--max-model-len")],
)
def test_an_unknown_flag_is_refused_with_the_nearest(
    caught: Caught, capsys: pytest.CaptureFixture[str], flag: str, near: str
) -> None:
    assert serve(flag, "x") == 2
    assert f"did you mean {near}?" in capsys.readouterr().err
    assert caught.plans == []


@pytest.mark.parametrize("flag", sorted(REFUSED_FLAGS))
def test_what_cannot_be_honoured_is_refused_with_the_reason(
    caught: Caught, capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    assert serve("m", flag, "1") == 2
    assert REFUSED_FLAGS[flag] in capsys.readouterr().err


def test_what_means_nothing_is_accepted(caught: Caught) -> None:
    for name, flag in IGNORED_FLAGS.items():
        value = [] if not flag.takes_value else [flag.allowed[0] if flag.allowed else "x"]
        assert serve("m", name, *value) == 0
        assert caught.plan.ignored_flags == {name: flag.reason}


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["--omni"], "--omni needs a MODEL"),
        ([" "], "MODEL is blank"),
        (["a", "--model", "b"], "give one of them"),
        (["--api-server-count", "2"], "possible here: 1"),
        (["--api-server-count", "0"], "possible here: 1"),
        (["--omni-lb-policy", "magic"], "random, round-robin"),
        (["--worker-backend", "ray"], "multi_process"),
        (["--port"], "--port needs a value"),
        (["--port", "70000"], "65535"),
        (["--no-max-model-len"], "is no switch"),
        (["--chat-template", "nowhere.jinja"], "no such file"),
        (["--allowed-local-media-path", "/nowhere"], "is not a folder"),
        (["--ssl-keyfile", "x"], "go together"),
        (["--default-chat-template-kwargs", "{"], "not valid JSON"),
        (["--default-chat-template-kwargs", '{"thinking": true}'], "unknown key 'thinking'"),
        (["--mm-processor-kwargs", '{"max_slice_nums": 0}'], "from 1 to 64"),
        (["--log-format", "xml"], "known: text, json"),
        (["a", "b"], "unexpected extra argument"),
    ],
)
def test_a_bad_command_line_is_one_line_and_exit_code_two(
    caught: Caught, capsys: pytest.CaptureFixture[str], args: list[str], reason: str
) -> None:
    assert serve(*args) == 2
    message = capsys.readouterr().err
    assert reason in message
    assert message.startswith("antiphon: error: ")
    assert message.count("\n") == 1
    assert caught.plans == []


def test_media_and_templates_follow_their_flags(caught: Caught, tmp_path: Path) -> None:
    (tmp_path / "t.jinja").write_text("{{ 1 }}")
    serve(
        *("m", "--allowed-local-media-path", str(tmp_path), "--allowed-media-domains", "A.org", ".b.org"),
        *("--chat-template", str(tmp_path / "t.jinja"), "--default-chat-template-kwargs", '{"enable_thinking": true}'),
        *("--mm-processor-kwargs", '{"max_slice_nums": 4, "use_audio_in_video": false}'),
    )
    settings = caught.plan.settings
    assert (settings.media.local_folder, settings.media.domains) == (tmp_path, ("a.org", ".b.org"))
    assert (settings.chat_template, settings.enable_thinking, settings.use_tts_template) == ("{{ 1 }}", True, None)
    assert (settings.max_slices, settings.use_audio_in_video) == (4, False)
    serve("m", "--allowed-media-domains", "none")
    assert caught.plan.settings.media.domains == ()


def test_arguments_are_sorted_without_typer() -> None:
    own = OwnFlags({"--port": True, "--check": False})
    found = read_serve_args(["--check", "m", "--port=1", "--task-type", "x"], own)
    assert found.rest == ["--check", "m", "--port", "1"]
    with pytest.raises(ConfigError, match="--task-type needs a value"):
        read_serve_args(["--task-type"], own)


def test_check_says_whether_it_could_be_served(capsys: pytest.CaptureFixture[str]) -> None:
    assert serve("--check", "--device", "cpu", "--task-type", "x") == 0
    text = " ".join(capsys.readouterr().err.split())
    assert "without effect here: --task-type" in text
    assert "tiny can be served on cpu" in text
    assert serve("--check", "--device", "cpu", "--stage-overrides", '{"0": {"max_num_sesq": 4}}') == 2
    assert "did you mean 'max_num_seqs'?" in capsys.readouterr().err
