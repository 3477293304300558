"""Replays the list of inputs: the signal generators must make what the recorded set was made from."""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from antiphon.offline.verify.checks import CaseChecks
from antiphon.offline.verify.context import VerifyContext
from antiphon.offline.verify.golden import audio_signal_int16, image_pattern

_SESSION_FOLDERS = ("08_duplex", "08_duplex_unified")  # their inputs are one entry a session
_SIGNALS = "signals.json"  # hashes of the signals; not listed in the manifest, and a set may come without it


def _check_inputs(context: VerifyContext, checks: CaseChecks) -> None:
    for label, entry in _audio_entries(context.golden.json(checks.file)["audio"]):
        signal = audio_signal_int16(entry["samples"], entry["seed"], entry.get("sample_rate", 16_000))
        checks.equal(label, signal.shape, (entry["samples"],))
    for folder in _SESSION_FOLDERS:
        for name in context.golden.inputs.get(folder, {}):
            files = [f"{folder}/{name}.{suffix}" for suffix in ("json", "safetensors")]
            checks.equal(f"{folder}/{name} is recorded", all(map(context.golden.has, files)), True)
    if not (context.golden.folder / _SIGNALS).is_file():
        return
    signals = context.golden.json(_SIGNALS)
    for entry in signals["audio"]:
        signal = audio_signal_int16(entry["n"], entry["seed"], entry["sr"])
        checks.equal(f"audio {entry['seed']}", sha256(signal.tobytes()).hexdigest(), entry["sha256_int16"])
        checks.equal(f"audio {entry['seed']} start", signal[: len(entry["first16"])].tolist(), entry["first16"])
    for entry in signals["images"]:
        picture = image_pattern(entry["width"], entry["height"], entry["seed"])
        label = f"image {entry['width']}x{entry['height']} {entry['seed']}"
        checks.equal(label, sha256(picture.tobytes()).hexdigest(), entry["sha256_rgb"])


def _audio_entries(entries: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Entries with seed and length; consecutive packets have no length, a stereo file has two seeds."""
    for name, entry in entries.items():
        shared = {key: value for key, value in entry.items() if not isinstance(value, Mapping)}
        parts = {f"{name}.{key}": {**shared, **value} for key, value in entry.items() if isinstance(value, Mapping)}
        for label, part in (parts or {name: shared}).items():
            if "samples" in part:
                yield label, part


REPLAYS = (("inputs.json", _check_inputs),)
