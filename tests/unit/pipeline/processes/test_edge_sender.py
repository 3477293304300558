import threading

import pytest

from antiphon.core.errors import AntiphonError
from antiphon.pipeline.connectors.connector import ConnectorClosedError, ConnectorTimeoutError
from antiphon.pipeline.messages import CodecChunk, StagePiece
from antiphon.pipeline.processes.edge_sender import EdgeSender


def piece(number: int) -> CodecChunk:
    return CodecChunk(request_id=f"r{number}", epoch=0, codes=(), is_last=False)


class FakeOutlet:
    """Takes everything but the numbered pieces, each of which raises its error."""

    def __init__(self, errors: dict[int, AntiphonError]) -> None:
        self.errors = errors
        self.taken: list[object] = []
        self.is_closed = threading.Event()

    def put(self, message: object, *, timeout_s: float) -> None:
        number = len(self.taken)
        self.taken.append(message)
        if number in self.errors:
            raise self.errors[number]

    def close(self) -> None:
        self.is_closed.set()


def run(errors: dict[int, AntiphonError]) -> tuple[FakeOutlet, list[tuple[str, AntiphonError]]]:
    outlet = FakeOutlet(errors)
    failed: list[tuple[str, AntiphonError]] = []
    done = threading.Event()

    def fail(message: StagePiece, error: AntiphonError) -> None:
        failed.append((message.request_id, error))
        done.set()

    sender = EdgeSender("e", outlet, timeout_s=1.0, fail=fail)
    for number in range(4):
        try:
            sender.put(piece(number))
        except ConnectorClosedError as error:
            failed.append((f"r{number}", error))
    assert not errors or done.wait(5)
    if errors and isinstance(next(iter(errors.values())), ConnectorClosedError):
        with pytest.raises(ConnectorClosedError):
            sender.put(piece(9))
    sender.close()
    return outlet, failed


def test_a_piece_that_times_out_fails_alone() -> None:
    error = ConnectorTimeoutError("full")
    outlet, failed = run({1: error})
    assert failed == [("r1", error)]
    assert outlet.is_closed.wait(5)


def test_when_the_consumer_is_gone_every_piece_fails_at_once() -> None:
    outlet, failed = run({0: ConnectorClosedError("gone")})
    assert outlet.is_closed.wait(5)
    assert [name for name, _ in failed] == ["r0", "r1", "r2", "r3"]
    assert len(outlet.taken) == 1
