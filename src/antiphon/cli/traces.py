"""Turns traces on where they are asked for: by flag, or by OpenTelemetry's own variables."""

from antiphon import __version__
from antiphon.config.env import Environment
from antiphon.core.errors import ConfigError
from antiphon.telemetry.traces import RequestTracing


def open_traces(endpoint: str | None, environment: Environment) -> RequestTracing | None:
    """What traces requests; None: nobody asked for traces, and nothing of OpenTelemetry is imported.

    Raises:
        ConfigError: the extra is not installed, or the protocol is not known.
    """
    if endpoint is None and not environment.sends_traces:
        return None
    try:
        from antiphon.telemetry.otel import open_tracing
    except ModuleNotFoundError as error:
        asked = "--otlp-traces-endpoint" if endpoint is not None else "an OTEL_ variable"
        raise ConfigError(
            f"{asked} asks for traces, but {error.name} is missing: pip install 'antiphon[otel]'"
        ) from None
    return open_tracing(
        endpoint, protocol=environment.traces_protocol, service_name=environment.service_name, version=__version__
    )
