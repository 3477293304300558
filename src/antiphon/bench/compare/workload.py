"""Decides whether two results measured the same work, and says what differed in how it was served."""

from collections.abc import Iterator, Mapping, Sequence

from antiphon.bench.compare.result_reading import Document, Result
from antiphon.core.errors import ConfigError

Difference = tuple[object, object]

# Whatever decides what is sent, and when.
_FACTS = ("backend", "dataset", "request_rate", "burstiness", "seed", "sampling", "extra_body")
_LEVEL_FACTS = ("num_prompts", "max_concurrency")
# Options of the command that change nothing about the requests; all others must agree.
_HARMLESS_FLAGS = frozenset(
    {
        "--base-url", "--host", "--port", "--endpoint", "--model", "--served-model-name", "--header", "--api-key",
        "--ready-check-timeout-sec", "--omni-request-timeout-s", "--tokenizer", "--percentile-metrics",
        "--metric-percentiles", "--goodput", "--continuity-threshold-s", "--print-stage", "--save-result",
        "--save-detailed", "--append-result", "--result-dir", "--result-filename", "--metadata", "--label", "--plot",
        "--disable-tqdm", "--omni", "--trust-remote-code",
        # where the data lies; what it is shows in its length
        "--dataset-path", "--seed-tts-root", "--daily-omni-qa-json", "--daily-omni-video-dir",
    }
)  # fmt: skip
_COVERED_FLAGS = frozenset(
    {
        "--backend", "--dataset-name", "--request-rate", "--burstiness", "--seed", "--extra-body", "--num-prompts",
        "--max-concurrency", "--temperature", "--top-p", "--top-k", "--min-p", "--ignore-eos", "--frequency-penalty",
        "--presence-penalty", "--repetition-penalty",
    }
)  # fmt: skip
# Servers may count the template's tokens differently, but not the prompts.
_INPUT_TOKENS = "input tokens per request"
_MAX_INPUT_DRIFT = 0.02
# Described elsewhere, or not about how the work was served. Numbers of a file of one level are figures, but for these.
_NOT_SERVING = frozenset({*_FACTS, *_LEVEL_FACTS, "date", "command", "label", "base_url", "endpoint", "server"})
_SETTINGS = frozenset({"num_warmups", "audio_continuity_threshold_s"})


def workload_differences(first: Result, second: Result) -> dict[str, Difference]:
    """Fields of the workload that differ, with both values; empty if the two may be compared.

    A field that one of the files does not have cannot be held against it: vLLM-Omni writes fewer.
    """
    found = dict(_differing(first.facts, second.facts, _FACTS))
    sizes = [[tuple(level.get(key) for key in _LEVEL_FACTS) for level in run.levels] for run in (first, second)]
    if sizes[0] != sizes[1]:
        found["levels (num_prompts, max_concurrency)"] = (_readable(sizes[0]), _readable(sizes[1]))
        return found
    commands = [_flags(run.facts.get("command")) for run in (first, second)]
    if all(command is not None for command in commands):
        before, after = (command or {} for command in commands)
        for flag in sorted((before.keys() | after.keys()) - _HARMLESS_FLAGS - _COVERED_FLAGS):
            if before.get(flag) != after.get(flag):
                found[flag] = (before.get(flag), after.get(flag))
    for one, other in zip(first.levels, second.levels, strict=True):
        lengths = [_input_len(level) for level in (one, other)]
        if lengths[0] and lengths[1] and abs(lengths[1] / lengths[0] - 1) > _MAX_INPUT_DRIFT:
            found[_INPUT_TOKENS] = (round(lengths[0], 1), round(lengths[1], 1))
    return found


def require_same_workload(first: Result, second: Result, ignored: Sequence[str]) -> None:
    """Refuse to compare different work.

    Args:
        ignored: fields that may differ all the same.

    Raises:
        ConfigError: which fields differ, or *ignored* names one that does not.
    """
    found = workload_differences(first, second)
    if unknown := [name for name in ignored if name not in found]:
        raise ConfigError(f"--ignore {unknown[0]!r}: this does not differ; different: {', '.join(found) or 'nothing'}")
    left = {name: values for name, values in found.items() if name not in ignored}
    if left:
        parts = [f"{name}: {before} and {after}" for name, (before, after) in left.items()]
        raise ConfigError(f"{first.name} and {second.name} measured different work: {'; '.join(parts)}")


def serving_differences(first: Result, second: Result) -> dict[str, Difference]:
    """What differed in servers, switches, versions and settings, by dotted name."""
    before, after = (dict(_described(run)) for run in (first, second))
    return {
        name: (before.get(name), after.get(name))
        for name in [*before, *(name for name in after if name not in before)]
        if before.get(name) != after.get(name)
    }


def _described(run: Result) -> Iterator[tuple[str, object]]:
    for name, value in run.facts.items():
        is_told = isinstance(value, (str, dict, bool)) or name in _SETTINGS
        if is_told and name not in _NOT_SERVING and not name.startswith("stage_durations"):
            yield from _flat(name, value)
    server = run.levels[0].get("server")
    if isinstance(server, dict):
        yield from _flat("server", {key: value for key, value in server.items() if key != "counters"})
        counters = server.get("counters")
        if isinstance(counters, dict):  # how often is a matter of length; whether at all is not
            yield from ((f"counter {name}", "used") for name, count in counters.items() if count)


def _flat(name: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}", inner)
    else:
        yield name, value


def _differing(first: Document, second: Document, names: Sequence[str]) -> Iterator[tuple[str, Difference]]:
    for name in names:
        if name in first and name in second and first[name] != second[name]:
            yield name, (first[name], second[name])


def _flags(command: object) -> Mapping[str, str] | None:
    """The options of a recorded command; a flag without a value is `on`, a repeated one keeps all its values."""
    if not isinstance(command, list):
        return None
    found: dict[str, str] = {}
    flag = ""
    for word in map(str, command):
        if word.startswith("--"):
            flag, _, value = word.partition("=")
            found[flag] = f"{found[flag]}, {value}" if flag in found and value else value or "on"
        elif flag:
            found[flag] = word if found[flag] == "on" else f"{found[flag]}, {word}"
    return found


def _input_len(level: Document) -> float:
    total, completed = level.get("total_input_tokens"), level.get("completed")
    if isinstance(total, (int, float)) and isinstance(completed, int) and completed:
        return total / completed
    return 0.0


def _readable(sizes: list[tuple[object, ...]]) -> str:
    return ", ".join(f"{prompts} at {limit or 'no limit'}" for prompts, limit in sizes)
