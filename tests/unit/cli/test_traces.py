import subprocess
import sys

import pytest

from antiphon.cli.traces import open_traces
from antiphon.config.env import read_environment
from antiphon.core.errors import ConfigError


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_without_being_asked_nothing_of_opentelemetry_is_imported() -> None:
    code = (
        "import sys\nimport antiphon.cli.serve_run\nfrom antiphon.cli.traces import open_traces\n"
        "from antiphon.config.env import read_environment\n"
        "assert open_traces(None, read_environment({})) is None\n"
        "print(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert run(code).strip() == "False"


def test_without_the_extra_the_flag_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "antiphon.telemetry.otel", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.grpc.trace_exporter", None)
    with pytest.raises(ConfigError, match=r"--otlp-traces-endpoint asks .* pip install 'antiphon\[otel\]'"):
        open_traces("http://127.0.0.1:4317", read_environment({}))
    with pytest.raises(ConfigError, match="an OTEL_ variable asks"):
        open_traces(None, read_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317"}))


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4317"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x:4317"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4317", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4317", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_opentelemetrys_variables_turn_traces_on_and_off(environ: dict[str, str], wanted: bool) -> None:
    assert read_environment(environ).sends_traces is wanted


def test_a_flag_opens_traces() -> None:
    environment = read_environment({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_SERVICE_NAME": "mine"})
    assert (environment.traces_protocol, environment.service_name) == ("http/protobuf", "mine")
    tracing = open_traces("http://127.0.0.1:9/v1/traces", environment)
    assert tracing is not None
    tracing.close()
