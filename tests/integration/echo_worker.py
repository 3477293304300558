"""A worker whose stages compute nothing: the Thinker repeats its prompt, and each token becomes a code and a sample.

Run as a script by the supervisor's tests. A prompt that starts with id 0 never ends; one that starts with 1 fails.
"""

import time
from collections import deque
from collections.abc import Sequence

import numpy as np
import torch

from antiphon.core.errors import CheckpointError, EngineError
from antiphon.core.outputs import FinishReason
from antiphon.engine.counters import Counters
from antiphon.pipeline.messages import (
    CodecChunk,
    DrawnCodes,
    SpeechEnd,
    SpeechSamples,
    SpokenPiece,
    StageOutput,
    StagePiece,
    StageRequest,
    TextEnd,
    TextTokens,
    ThinkerRequest,
)
from antiphon.pipeline.processes.control import BuildStages
from antiphon.pipeline.processes.worker_process import BuiltStages, run_worker
from antiphon.pipeline.stage import Report, Urgency


class EchoStage:
    """Answers each request and piece at once; endless requests are kept until they are aborted."""

    is_busy = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.requests: dict[str, StageRequest] = {}
        self.outputs: deque[StageOutput] = deque()
        self.num_admitted = 0

    def admit(self, request: StageRequest) -> None:
        self.num_admitted += 1
        self.requests[request.request_id] = request
        if isinstance(request, ThinkerRequest):
            if request.ids[0] == 1:
                raise EngineError("this prompt is poisoned")
            if request.ids[0] != 0:
                self._repeat(request)

    def _repeat(self, request: ThinkerRequest) -> None:
        key = {"request_id": request.request_id, "epoch": request.epoch}
        self.outputs.append(TextTokens(ids=request.ids, **key))
        if request.handoff is not None:
            rows = torch.tensor(request.ids, dtype=torch.bfloat16)[:, None].expand(-1, 4096)
            self.outputs.append(SpokenPiece(ids=request.ids, rows=rows, is_last=False, **key))
            self.outputs.append(SpokenPiece(ids=(), rows=rows[:0], is_last=True, **key))
        end = TextEnd(reason=FinishReason.STOP, stop_id=None, num_cached_tokens=0, **key)
        self.outputs.append(end)
        del self.requests[request.request_id]

    def extend(self, piece: StagePiece) -> None:
        if piece.request_id not in self.requests:
            return
        key = {"request_id": piece.request_id, "epoch": piece.epoch}
        if isinstance(piece, SpokenPiece):
            codes = tuple(int(value) for value in piece.rows.float().mean(dim=1)) if piece.ids else ()
            self.outputs.append(CodecChunk(codes=codes, is_last=piece.is_last, **key))
            self.outputs.append(DrawnCodes(codes=codes, **key))
            if piece.is_last:
                self.outputs.append(SpeechEnd(reason=FinishReason.STOP, **key))
        elif isinstance(piece, CodecChunk):
            samples = np.array(piece.codes, np.float32)
            self.outputs.append(SpeechSamples(samples=samples, is_last=piece.is_last, **key))
        if piece.is_last:
            del self.requests[piece.request_id]

    def close_input(self, request_id: str) -> None: ...

    def abort(self, request_id: str) -> None:
        self.requests.pop(request_id, None)

    def urgency(self) -> Urgency:
        return (0, 0.0)

    def launch(self) -> bool:
        return False

    def collect(self) -> Sequence[StageOutput]:
        outputs, self.outputs = list(self.outputs), deque()
        return outputs

    def warm_up(self, report: Report) -> None:
        report(f"warming {self.name}")

    def snapshot(self) -> dict[str, float]:
        return {"held": len(self.requests), "admitted": self.num_admitted}


def build(order: BuildStages, report: Report) -> BuiltStages:
    report("building")
    if order.model.source == "broken":
        raise CheckpointError("there is no such model")
    if order.model.source == "slow":
        time.sleep(60)
    return BuiltStages([EchoStage(name) for name in order.stages], Counters())


if __name__ == "__main__":
    run_worker(build)
