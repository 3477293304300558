"""The query of the WebSocket's address (specification section 1.2)."""

from collections.abc import Mapping
from dataclasses import dataclass

_ON = {"1", "true", "on", "yes"}
_OFF = {"0", "false", "no", "off"}
_DUPLEX_ON = {"1", "true", "on"}
DIALECTS = ("vllm", "openai", "vllm-legacy")


@dataclass(frozen=True, kw_only=True)
class RealtimeQuery:
    """What the address asks for. Legacy parameters are ignored."""

    model: str | None = None
    has_duplex: bool = False  # `duplex` is there, whatever it says
    wants_turn_handler: bool = False  # `duplex` is there and says something else than yes
    is_autostart: bool = False
    dialect: str | None = None
    is_warmup: bool = False
    mode: str | None = None  # of OpenBMB's dialect


def parse_query(query: Mapping[str, str]) -> RealtimeQuery:
    duplex = query.get("duplex")
    model = query.get("model") or None
    is_off = query.get("autostart", "").lower() in _OFF or query.get("resume", "").lower() in _ON
    return RealtimeQuery(
        model=model,
        has_duplex=duplex is not None,
        wants_turn_handler=duplex is not None and duplex.lower() not in _DUPLEX_ON,
        is_autostart=model is not None and not is_off,
        dialect=query.get("dialect"),
        is_warmup=query.get("vllm_omni_warmup") == "1",
        mode=query.get("mode"),
    )
