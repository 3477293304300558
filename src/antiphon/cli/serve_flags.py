"""Flags of `vllm serve` that mean nothing here, or cannot be honoured, each with its reason."""

from collections.abc import Mapping
from dataclasses import dataclass

_ONE_FRONT = "one front process serves; give a stage num_replicas in the deploy configuration for more throughput"
_ONE_HOST = "stages on several machines are not part of this version; leave it out"
_REPLICAS = "use num_replicas of a stage in the deploy configuration"
_OTHER_MODEL = "another model's option"
_TOOLS = "tools are refused in requests; answers are not searched for calls"
_NO_ENGINE_CORE = "there are no engine processes of that kind to wait for"
_ALWAYS = "this is how it always is"


@dataclass(frozen=True)
class IgnoredFlag:
    """Accepted with one notice. `allowed`: the values that may be given, None for any; without a value: no tuple."""

    reason: str
    takes_value: bool = True
    allowed: tuple[str, ...] | None = None


def _switch(reason: str) -> IgnoredFlag:
    return IgnoredFlag(reason, takes_value=False)


IGNORED_FLAGS: Mapping[str, IgnoredFlag] = {
    "--trust-remote-code": _switch("code of a checkpoint is never run"),
    "--chat-template-content-format": IgnoredFlag(
        "templates get the parts of a message in their order", allowed=("auto", "string", "openai")
    ),
    "--strategy-config": IgnoredFlag("not needed for this model"),
    "--enable-auto-tool-choice": _switch(_TOOLS),
    "--tool-call-parser": IgnoredFlag(_TOOLS),
    "--reasoning-parser": IgnoredFlag("thoughts are always returned apart, as reasoning_content"),
    "--enable-reasoning": _switch("thoughts are always returned apart, as reasoning_content"),
    "--enable-log-deltas": _switch("use --enable-log-outputs"),
    "--log-error-stack": _switch(_ALWAYS),
    "--disable-log-requests": _switch(_ALWAYS),
    "--disable-fastapi-docs": _switch("the documents need the key, if there is one"),
    "--log-stats": _switch("each answer is logged with its times"),
    "--max-log-len": IgnoredFlag("logged texts are cut at 2,000 characters"),
    "--shm-threshold-bytes": IgnoredFlag("stages hand over by pointer or shared memory, whatever the size"),
    "--batch-timeout": IgnoredFlag("nothing waits for a batch"),
    "--stage-init-timeout": IgnoredFlag(_NO_ENGINE_CORE),
    "--init-timeout": IgnoredFlag(_NO_ENGINE_CORE),
    "--api-server-count": IgnoredFlag(_ONE_FRONT, allowed=("1",)),
    "--omni-dp-size-local": IgnoredFlag(_ONE_FRONT, allowed=("1",)),
    "--omni-lb-policy": IgnoredFlag(
        "a request keeps its replica, taken in turn", allowed=("random", "round-robin", "least-queue-length")
    ),
    "--omni-heartbeat-timeout": IgnoredFlag("workers of one host are watched by their process"),
    "--worker-backend": IgnoredFlag("one worker process per device group", allowed=("multi_process",)),
    "--distributed-executor-backend": IgnoredFlag("one worker process per rank, always"),
    "--ray-address": IgnoredFlag("workers are started on this host"),
    "--enable-sleep-mode": _switch("the engine does not sleep"),
    "--enable-ar-profiler": _switch("profiles are taken by the benchmark command"),
    "--enable-orch-monitor": _switch("see /metrics"),
    "--replica-id": IgnoredFlag("deprecated in the reference too"),
    "--task-type": IgnoredFlag(_OTHER_MODEL),
    "--forced-aligner": IgnoredFlag(_OTHER_MODEL),
    "--seed": IgnoredFlag("seeds are sampling parameters, by default those of the deploy configuration"),
    "--tokenizer-mode": IgnoredFlag("tokenizer.json is used"),
    "--generation-config": IgnoredFlag("sampling defaults are those of the deploy configuration"),
    "--block-size": IgnoredFlag("16 tokens, always"),
    "--swap-space": IgnoredFlag("parked sessions are spilled when memory is short"),
    "--uvicorn-log-level": IgnoredFlag("use --log-level"),
}

REFUSED_FLAGS: Mapping[str, str] = {
    **dict.fromkeys(("--stage-configs-path", "--stage-configs"), "use --deploy-config"),
    **dict.fromkeys(
        (
            *("--data-parallel-size", "--data-parallel-size-local", "--data-parallel-address"),
            *("--data-parallel-rpc-port", "--data-parallel-start-rank", "--data-parallel-backend"),
            "--enable-expert-parallel",
        ),
        _REPLICAS,
    ),
    **dict.fromkeys(
        (
            *("--stage-id", "--headless", "--omni-master-address", "-oma", "--omni-master-port", "-omp"),
            *("--omni-replica-address", "-ora"),
        ),
        _ONE_HOST,
    ),
}

# May be followed by several values, or be repeated.
LIST_FLAGS = frozenset(
    {
        *("--served-model-name", "--api-key", "--allowed-media-domains"),
        *("--allowed-origins", "--allowed-methods", "--allowed-headers"),
    }
)
