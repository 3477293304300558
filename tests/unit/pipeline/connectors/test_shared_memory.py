import gc
import importlib.util
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest
import torch

from antiphon.core.errors import ConfigError
from antiphon.pipeline.connectors.connector import ConnectorClosedError, ConnectorTimeoutError
from antiphon.pipeline.connectors.segment_names import SEGMENT_FOLDER, create_segment
from antiphon.pipeline.connectors.shared_memory import SharedMemoryInlet, SharedMemoryOutlet
from antiphon.pipeline.encoding import MessageEncoding
from antiphon.pipeline.messages import MESSAGES, CodecChunk, SpokenPiece

WRITER = Path(__file__).with_name("ring_writer.py")
ENCODING = MessageEncoding(MESSAGES)


def load_writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ring_writer", WRITER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def chunk(number: int, num_codes: int = 4) -> CodecChunk:
    return CodecChunk(request_id="r", epoch=number, codes=tuple(range(num_codes)), is_last=False)


def rows(number: int, num_bytes: int) -> SpokenPiece:
    values = torch.full((num_bytes,), number % 251, dtype=torch.uint8)
    return SpokenPiece(request_id="r", epoch=number, ids=(), rows=values, is_last=False)


def wait_for(inlet: SharedMemoryInlet, timeout_s: float = 20) -> list[object]:
    """Sleep until something is readable, as a worker does, then take it."""
    ready, _, _ = select.select(inlet.descriptors(), [], [], timeout_s)
    assert ready, "nothing came in time"
    return inlet.get()


def segments() -> set[str]:
    return {path.name for path in SEGMENT_FOLDER.glob(f"antiphon-{os.getpid()}-*")}


def fill(outlet: SharedMemoryOutlet, messages: Sequence[object]) -> int:
    """How many the ring takes before it is full."""
    for count, message in enumerate(messages):
        try:
            outlet.put(message, timeout_s=0.02)
        except ConnectorTimeoutError:
            return count
    raise AssertionError("the ring has no bound")


@pytest.fixture
def inlet() -> Iterator[SharedMemoryInlet]:
    ring = SharedMemoryInlet(ENCODING, edge="test", num_bytes=1 << 16)
    yield ring
    ring.close()
    assert not segments()


def spawn_writer(inlet: SharedMemoryInlet, count: int, num_rows: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, str(WRITER), inlet.address, str(count), str(num_rows)])


def test_ten_thousand_records_of_another_process_arrive_whole_and_in_order(inlet: SharedMemoryInlet) -> None:
    expected = load_writer().message
    with spawn_writer(inlet, 10_000, 20) as writer:
        number = 0
        while not inlet.is_closed:
            for message in wait_for(inlet):
                assert isinstance(message, SpokenPiece)
                wanted = expected(number, 20)
                assert (message.request_id, message.epoch, message.ids) == (wanted.request_id, number, (number,))
                assert torch.equal(message.rows.view(torch.int16), wanted.rows.view(torch.int16))
                number += 1
        assert number == 10_000
        assert writer.wait(10) == 0


def test_a_writer_killed_in_the_middle_of_a_message_leaves_no_half_of_it(inlet: SharedMemoryInlet) -> None:
    # A message of four rings: as long as nobody reads, the writer is stuck in the middle of it.
    with spawn_writer(inlet, 1, 4 * (1 << 16) // 12) as writer:
        assert select.select(inlet.descriptors(), [], [], 20)[0], "the writer has not connected"
        deadline = time.monotonic() + 10
        while Path(f"/proc/{writer.pid}/stat").read_text().split()[2] != "S":
            assert time.monotonic() < deadline, "the writer has not filled the ring"
        writer.kill()
        writer.wait(10)
        while not inlet.is_closed:
            assert wait_for(inlet) == []


def test_a_message_larger_than_the_ring_comes_through_in_parts(inlet: SharedMemoryInlet) -> None:
    outlet = SharedMemoryOutlet(inlet.address, ENCODING)
    thread = threading.Thread(target=lambda: outlet.put(rows(7, 1_000_003), timeout_s=20))
    thread.start()
    got: list[object] = []
    while not got:
        got = wait_for(inlet)
    thread.join(10)
    assert isinstance(got[0], SpokenPiece)
    assert torch.equal(got[0].rows, rows(7, 1_000_003).rows)
    outlet.close()


def test_a_full_ring_holds_the_writer_back_and_then_ends_only_that_message(inlet: SharedMemoryInlet) -> None:
    outlet = SharedMemoryOutlet(inlet.address, ENCODING)
    inlet.get()
    accepted = fill(outlet, [rows(number, 5000) for number in range(100)])
    assert 8 <= accepted <= 13
    assert [message.epoch for message in inlet.get() if isinstance(message, SpokenPiece)] == list(range(accepted))

    outlet.put(rows(77, 5000), timeout_s=0.02)

    (message,) = inlet.get()
    assert isinstance(message, SpokenPiece)
    assert message.epoch == 77
    outlet.close()


def test_a_message_given_up_half_way_is_dropped_by_the_reader(inlet: SharedMemoryInlet) -> None:
    outlet = SharedMemoryOutlet(inlet.address, ENCODING)
    inlet.get()
    with pytest.raises(ConnectorTimeoutError):
        outlet.put(rows(1, 200_000), timeout_s=0.02)
    assert inlet.get() == []
    outlet.put(rows(2, 10), timeout_s=1)
    (message,) = inlet.get()
    assert isinstance(message, SpokenPiece)
    assert message.epoch == 2
    outlet.close()


def test_many_small_records_are_bounded_too(inlet: SharedMemoryInlet) -> None:
    outlet = SharedMemoryOutlet(inlet.address, ENCODING)
    inlet.get()
    assert fill(outlet, [chunk(number) for number in range(1000)]) == 128
    assert len(inlet.get()) == 128
    outlet.close()


def test_a_slow_reader_gets_everything(inlet: SharedMemoryInlet) -> None:
    outlet = SharedMemoryOutlet(inlet.address, ENCODING, use_checksum=True)

    def write() -> None:
        for number in range(300):
            outlet.put(rows(number, 3001), timeout_s=20)
        outlet.close()

    thread = threading.Thread(target=write)
    thread.start()
    epochs = []
    while not inlet.is_closed:
        epochs += [message.epoch for message in wait_for(inlet) if isinstance(message, SpokenPiece)]
        time.sleep(0.001)
    thread.join(10)
    assert epochs == list(range(300))


def test_the_name_is_gone_once_both_ends_have_the_ring(inlet: SharedMemoryInlet) -> None:
    assert len(segments()) == 1
    outlet = SharedMemoryOutlet(inlet.address, ENCODING)
    assert not segments()
    outlet.put(chunk(1), timeout_s=1)
    assert inlet.get() == [chunk(1)]
    outlet.close()


def test_a_writer_learns_that_the_reader_is_gone(inlet: SharedMemoryInlet) -> None:
    outlet = SharedMemoryOutlet(inlet.address, ENCODING)
    inlet.get()
    inlet.close()
    with pytest.raises(ConnectorClosedError):
        outlet.put(chunk(1), timeout_s=5)
    outlet.close()


def test_what_was_handed_over_before_the_writer_left_is_still_read(inlet: SharedMemoryInlet) -> None:
    outlet = SharedMemoryOutlet(inlet.address, ENCODING)
    for number in range(5):
        outlet.put(chunk(number), timeout_s=1)
    outlet.close()
    assert inlet.get() == [chunk(number) for number in range(5)]
    assert inlet.is_closed


def test_an_address_without_a_reader_is_refused() -> None:
    with pytest.raises(ConnectorClosedError, match="gone"):
        SharedMemoryOutlet("shm:antiphon-1-2-edge-00:65536", ENCODING)
    with pytest.raises(ConfigError, match="no address"):
        SharedMemoryOutlet("tcp:host:1", ENCODING)


def test_a_ring_that_does_not_fit_is_refused_and_leaves_nothing() -> None:
    with pytest.raises(ConfigError, match="more room"):
        SharedMemoryInlet(ENCODING, edge="huge", num_bytes=1 << 50)
    assert not segments()


def test_a_hundred_rings_leave_neither_memory_nor_descriptors() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for number in range(100):
        ring = SharedMemoryInlet(ENCODING, edge="many", num_bytes=1 << 16)
        outlet = SharedMemoryOutlet(ring.address, ENCODING)
        outlet.put(chunk(number), timeout_s=1)
        assert ring.get() == [chunk(number)]
        outlet.close()
        ring.close()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before
    assert not segments()


def test_creating_twice_under_one_name_is_refused(tmp_path: Path) -> None:
    os.close(create_segment("antiphon-x", 64, tmp_path))
    with pytest.raises(FileExistsError):
        create_segment("antiphon-x", 64, tmp_path)
