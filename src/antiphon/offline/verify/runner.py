"""Replays a recorded set file by file and reports one result for each."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from time import perf_counter

import torch

from antiphon.offline.verify import (
    case_audio,
    case_code2wav,
    case_duplex,
    case_image,
    case_inputs,
    case_llm,
    case_prompt,
    case_simplex,
    case_talker,
    case_text_sampling,
    case_vision,
)
from antiphon.offline.verify.checks import CaseChecks
from antiphon.offline.verify.context import VerifyContext
from antiphon.offline.verify.golden import GoldenSet

Replay = Callable[[VerifyContext, CaseChecks], None]

# Recorded file → what replays it; the first pattern that matches counts. A file no pattern matches is a miss.
REPLAYS: tuple[tuple[str, Replay], ...] = (
    *case_inputs.REPLAYS,
    *case_image.REPLAYS,
    *case_vision.REPLAYS,
    *case_audio.REPLAYS,
    *case_llm.REPLAYS,
    *case_prompt.REPLAYS,
    *case_talker.REPLAYS,
    *case_code2wav.REPLAYS,
    *case_text_sampling.REPLAYS,
    *case_duplex.REPLAYS,
    *case_simplex.REPLAYS,
)


@dataclass(frozen=True)
class CaseResult:
    """Outcome of one recorded file."""

    file: str
    num_checks: int
    max_error: float
    worst: str
    failures: tuple[str, ...]
    inputs: frozenset[str]  # tensors read as inputs of the replay
    duration_s: float

    @property
    def passed(self) -> bool:
        return not self.failures


def run_verify(folder: Path, *, device: torch.device, only: str = "*") -> Iterator[CaseResult]:
    """Replay every recorded file whose name matches *only*, in the manifest's order."""
    golden = GoldenSet(folder)
    context = VerifyContext(golden, device)
    for file in golden.entries:
        if fnmatchcase(file, only):
            yield _run_case(context, file)


def _run_case(context: VerifyContext, file: str) -> CaseResult:
    checks = CaseChecks(file, context.golden)
    start_s = perf_counter()
    path = context.golden.folder / file
    recorded = context.golden.entries[file].get("sha256")
    if not path.is_file():
        checks.failures.append("the manifest lists this file, the folder lacks it")
    elif recorded and sha256(path.read_bytes()).hexdigest() != recorded:
        checks.failures.append("content differs from the manifest's sha256")
    else:
        replay = next((replay for pattern, replay in REPLAYS if fnmatchcase(file, pattern)), None)
        if replay is None:
            checks.unknown(file)
        else:
            try:
                with torch.inference_mode():
                    replay(context, checks)
            except Exception as error:  # noqa: BLE001 - one broken case must not hide the results of the others
                checks.failures.append(f"{type(error).__name__}: {error}")
            checks.finish()
    return CaseResult(
        file=file,
        num_checks=checks.num_checks,
        max_error=checks.max_error,
        worst=checks.worst,
        failures=tuple(checks.failures),
        inputs=frozenset(checks.inputs),
        duration_s=perf_counter() - start_s,
    )
