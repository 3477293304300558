import select
import socket
import threading
from collections.abc import Iterator

import pytest
import torch
import zmq

from antiphon.core.errors import ConfigError, StateError
from antiphon.pipeline.connectors.connector import ConnectorClosedError, ConnectorTimeoutError
from antiphon.pipeline.connectors.zeromq import ZeroMQInlet, ZeroMQOutlet
from antiphon.pipeline.encoding import MessageEncoding
from antiphon.pipeline.messages import MESSAGES, SpokenPiece

ENCODING = MessageEncoding(MESSAGES)
HOST = "127.0.0.1"
Context = zmq.Context[zmq.Socket[bytes]]


@pytest.fixture
def context() -> Iterator[Context]:
    made: Context = zmq.Context()
    yield made
    made.destroy(linger=0)


def piece(number: int) -> SpokenPiece:
    rows = torch.full((number % 50, 64), float(number % 100), dtype=torch.bfloat16)
    return SpokenPiece(request_id="r", epoch=number, ids=(number,), rows=rows, is_last=False)


class Reader:
    """Takes on a thread until it has *count* messages."""

    def __init__(self, inlet: ZeroMQInlet, count: int) -> None:
        self.messages: list[object] = []
        self.thread = threading.Thread(target=self.run, args=(inlet, count))
        self.thread.start()

    def run(self, inlet: ZeroMQInlet, count: int) -> None:
        while len(self.messages) < count:
            ready, _, _ = select.select(inlet.descriptors(), [], [], 10)
            assert ready
            self.messages += inlet.get()

    def join(self) -> list[object]:
        self.thread.join(15)
        assert not self.thread.is_alive()
        return self.messages


def test_messages_arrive_whole_and_in_order(context: Context) -> None:
    inlet = ZeroMQInlet(context, ENCODING, HOST)
    outlet = ZeroMQOutlet(context, inlet.address, ENCODING)
    reader = Reader(inlet, 500)
    for number in range(500):
        outlet.put(piece(number), timeout_s=10)
    for number, message in enumerate(reader.join()):
        assert isinstance(message, SpokenPiece)
        assert message.epoch == number
        assert torch.equal(message.rows, piece(number).rows)
    outlet.close()
    inlet.close()


def test_without_a_consumer_only_this_message_fails(context: Context) -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
    outlet = ZeroMQOutlet(context, f"tcp://{HOST}:{port}", ENCODING)
    with pytest.raises(ConnectorTimeoutError, match="no connection"):
        outlet.put(piece(1), timeout_s=0.05)

    inlet = ZeroMQInlet(context, ENCODING, HOST, port)  # it comes back, and the producer finds it again
    reader = Reader(inlet, 2)
    outlet.put(piece(2), timeout_s=10)
    outlet.put(piece(3), timeout_s=10)
    epochs = [message.epoch for message in reader.join() if isinstance(message, SpokenPiece)]
    assert epochs == [2, 3]
    outlet.close()
    inlet.close()


def test_a_late_acknowledgement_is_not_taken_for_the_next(context: Context) -> None:
    inlet = ZeroMQInlet(context, ENCODING, HOST)
    outlet = ZeroMQOutlet(context, inlet.address, ENCODING)
    with pytest.raises(ConnectorTimeoutError, match="acknowledge"):
        outlet.put(piece(1), timeout_s=0.1)
    reader = Reader(inlet, 2)
    outlet.put(piece(2), timeout_s=10)
    epochs = [message.epoch for message in reader.join() if isinstance(message, SpokenPiece)]
    assert epochs == [1, 2]
    outlet.close()
    inlet.close()


def test_a_port_in_use_is_refused(context: Context) -> None:
    inlet = ZeroMQInlet(context, ENCODING, HOST)
    with pytest.raises(ConfigError, match="cannot listen"):
        ZeroMQInlet(context, ENCODING, HOST, int(inlet.address.rsplit(":", 1)[1]))
    inlet.close()
    with pytest.raises(ConfigError, match="no address"):
        ZeroMQOutlet(context, "nowhere", ENCODING)


def test_a_stranger_is_an_error_of_ours(context: Context) -> None:
    inlet = ZeroMQInlet(context, ENCODING, HOST)
    stranger = context.socket(zmq.DEALER)
    stranger.connect(inlet.address)
    stranger.send_multipart([b"12345678", b"not a message"])
    assert select.select(inlet.descriptors(), [], [], 10)[0]
    with pytest.raises(StateError):
        take_something(inlet)
    stranger.close()
    inlet.close()


def take_something(inlet: ZeroMQInlet) -> None:
    while not inlet.get():
        pass


def test_a_closed_end_refuses(context: Context) -> None:
    outlet = ZeroMQOutlet(context, f"tcp://{HOST}:1", ENCODING)
    outlet.close()
    with pytest.raises(ConnectorClosedError):
        outlet.put(piece(1), timeout_s=1)
