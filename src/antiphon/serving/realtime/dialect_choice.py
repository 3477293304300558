"""Which dialect a connection speaks, decided once, before its session exists (specification section 17.1)."""

from antiphon.realtime.dialects.dialect import Dialect
from antiphon.realtime.dialects.map_realtime import MapDialect
from antiphon.realtime.dialects.openai import OpenAiDialect
from antiphon.realtime.dialects.vllm import VllmDialect
from antiphon.realtime.dialects.vllm_legacy import VllmLegacyDialect
from antiphon.serving.realtime.gate import MAP_PROTOCOL
from antiphon.wire.realtime.query import RealtimeQuery


def choose_dialect(query: RealtimeQuery, subprotocol: str | None, *, is_alias: bool) -> Dialect:
    """*subprotocol* is the one agreed on; *is_alias*: the path is `/v1/duplex`, which speaks vLLM-Omni's dialect.

    An address that names no dialect and has a model and nothing of vLLM-Omni's is taken for OpenAI's, until the first
    event proves otherwise.
    """
    if subprotocol == MAP_PROTOCOL:
        return MapDialect()
    if query.dialect == "openai":
        return OpenAiDialect()
    if query.dialect == "vllm-legacy":
        return VllmLegacyDialect()
    is_plain = query.dialect is None and not query.has_duplex
    if is_plain and query.is_autostart and not is_alias:
        return OpenAiDialect(is_guess=True)
    return VllmDialect()
