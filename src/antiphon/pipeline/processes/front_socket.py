"""The front's end of the lines to all workers. One thread."""

import secrets
from collections.abc import Callable, Collection, Iterator

import zmq

from antiphon.core.errors import EngineError, StateError
from antiphon.pipeline.connectors.zeromq import message_from, message_parts
from antiphon.pipeline.processes.control import front_encoding

_HIGH_WATER_MARK = 10_000  # messages that one worker may leave unread


class FrontSocket:
    """Listens in Linux's abstract socket space: no file, nothing to leave behind. Who may speak, `identity` decides."""

    def __init__(self) -> None:
        self._encoding = front_encoding()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # an error instead of silence when a worker does not read
        self._socket.setsockopt(zmq.SNDHWM, _HIGH_WATER_MARK)
        self._socket.setsockopt(zmq.RCVHWM, 0)  # reading is this side's duty; workers must not be held up
        self._socket.setsockopt(zmq.LINGER, 0)
        self.endpoint = f"ipc://@antiphon-{secrets.token_hex(16)}"
        self._socket.bind(self.endpoint)

    def sleep(self, timeout_s: float, descriptors: Collection[int]) -> set[int]:
        """Until a message has come, or one of *descriptors* is readable, or time is over; returns the readable ones."""
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        for descriptor in descriptors:
            poller.register(descriptor, zmq.POLLIN)
        ready = dict(poller.poll(max(0, int(timeout_s * 1000) + 1)))
        return {descriptor for descriptor in descriptors if descriptor in ready}

    def send(self, identity: bytes, message: object) -> None:
        """Queue *message* for a worker.

        Raises:
            EngineError: it has gone, or has stopped reading.
        """
        try:
            self._socket.send_multipart([identity, *message_parts(message, self._encoding)], zmq.NOBLOCK, copy=False)
        except zmq.ZMQError as error:
            raise EngineError(f"a worker cannot be reached: {error.strerror}") from error

    def receive(self, is_known: Callable[[bytes], bool]) -> Iterator[tuple[bytes, object]]:
        """What has arrived: who sent it, and the message, or the StateError that stands for what is none.

        Strangers, and workers of a former life, are not listened to.
        """
        while True:
            try:
                identity, *parts = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            if is_known(identity.bytes):
                try:
                    yield identity.bytes, message_from(parts, self._encoding)
                except StateError as error:
                    yield identity.bytes, error

    def close(self) -> None:
        self._socket.close()
        self._context.term()
