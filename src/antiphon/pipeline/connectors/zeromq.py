"""ZeroMQ over TCP between two hosts: the control part and each tensor as a raw frame of one multipart message.

`put` returns once the consumer has acknowledged the message. So nothing is ever lost unnoticed in a socket that
reconnects: a message without an acknowledgement in time is an error of its request, and of no other. One message per
round trip is thousands a second in a data centre; an edge carries tens.

There is no authentication: bind to an address of a network that only the hosts of the deployment reach. What arrives
is parsed by type, never executed.
"""

import math
import struct
import time
from collections.abc import Sequence

import torch
import zmq
from torch import Tensor

from antiphon.core.errors import ConfigError, StateError
from antiphon.pipeline.connectors.connector import ConnectorClosedError, ConnectorTimeoutError
from antiphon.pipeline.encoding import MessageEncoding

_NUMBER = struct.Struct("<Q")
_HIGH_WATER_MARK = 64  # messages; with acknowledgements only those of requests that were given up ever wait
_MAX_MESSAGE_BYTES = 2**30
_HEARTBEAT_MS, _HEARTBEAT_TIMEOUT_MS = 1000, 5000  # a peer that is silent for so long is reconnected to
_RECONNECT_MS, _RECONNECT_MAX_MS = 50, 2000


def _tune(socket: "zmq.Socket[bytes]") -> None:
    for option, value in (
        (zmq.SNDHWM, _HIGH_WATER_MARK),
        (zmq.RCVHWM, _HIGH_WATER_MARK),
        (zmq.LINGER, 0),
        (zmq.MAXMSGSIZE, _MAX_MESSAGE_BYTES),
        (zmq.HEARTBEAT_IVL, _HEARTBEAT_MS),
        (zmq.HEARTBEAT_TIMEOUT, _HEARTBEAT_TIMEOUT_MS),
        (zmq.HEARTBEAT_TTL, _HEARTBEAT_TIMEOUT_MS),
        (zmq.RECONNECT_IVL, _RECONNECT_MS),
        (zmq.RECONNECT_IVL_MAX, _RECONNECT_MAX_MS),
    ):
        socket.setsockopt(option, value)


class ZeroMQInlet:
    """The consumer's end.

    Args:
        host: the address of this host that the producer can reach.
        port: 0 takes a free one.
    """

    def __init__(
        self, context: "zmq.Context[zmq.Socket[bytes]]", encoding: MessageEncoding, host: str, port: int = 0
    ) -> None:
        self._encoding = encoding
        self._socket = context.socket(zmq.ROUTER)
        _tune(self._socket)
        try:
            self._socket.bind(f"tcp://{host}:{port or '*'}")
        except zmq.ZMQError as error:
            self._socket.close()
            raise ConfigError(
                f"cannot listen on {host}:{port}: {error.strerror}; choose another host or port"
            ) from error
        self._port = port or int(self._socket.get_string(zmq.LAST_ENDPOINT).rsplit(":", 1)[1])
        self._host = host

    @property
    def address(self) -> str:
        return f"tcp://{self._host}:{self._port}"

    @property
    def is_closed(self) -> bool:
        return bool(self._socket.closed)

    def descriptors(self) -> Sequence[int]:
        # Becomes readable once per change, not while something waits: `get` must run until nothing is left.
        return [self._socket.fileno()]

    def get(self) -> list[object]:
        messages: list[object] = []
        while True:
            try:
                peer, number, *parts = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return messages
            except ValueError as error:
                raise StateError("received a message without its parts") from error
            # A peer that left between its message and this is none of our business: ROUTER drops the answer.
            self._socket.send_multipart([peer.bytes, number.bytes], zmq.NOBLOCK)
            messages.append(message_from(parts, self._encoding))

    def close(self) -> None:
        self._socket.close()


def message_parts(message: object, encoding: MessageEncoding) -> "list[bytes | memoryview]":
    """The parts of a multipart message; large ones are views of the message's own memory."""
    encoded = encoding.encode(message)
    return [encoded.control, *(frame.cpu().numpy().data for frame in encoded.frames)]


def message_from(parts: "Sequence[zmq.Frame]", encoding: MessageEncoding) -> object:
    """The message of received parts, in memory of its own."""
    if not parts:
        raise StateError("received a message without parts")
    control, *frames = parts
    return encoding.decode(control.bytes, [_copy_out(frame) for frame in frames])


def _copy_out(frame: zmq.Frame) -> Tensor:
    """ZeroMQ's buffers are aligned to nothing in particular and are read-only."""
    target = torch.empty(len(frame), dtype=torch.uint8)
    target.numpy().data[:] = frame.buffer
    return target


class ZeroMQOutlet:
    """The producer's end; connects by itself, and again after a break."""

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", address: str, encoding: MessageEncoding) -> None:
        self._encoding = encoding
        self._socket = context.socket(zmq.DEALER)
        _tune(self._socket)
        self._socket.setsockopt(zmq.IMMEDIATE, 1)  # nothing is queued for a consumer that is not there
        try:
            self._socket.connect(address)
        except zmq.ZMQError as error:
            self._socket.close()
            raise ConfigError(f"{address!r} is no address of a ZeroMQ connector: {error.strerror}") from error
        self._number = 0

    def put(self, message: object, *, timeout_s: float) -> None:
        if self._socket.closed:
            raise ConnectorClosedError("the connector was closed")
        parts = message_parts(message, self._encoding)
        deadline = time.monotonic() + timeout_s
        self._number += 1
        if not self._wait(zmq.POLLOUT, deadline):
            raise ConnectorTimeoutError(f"no connection to the consumer for {timeout_s:g} s")
        # Copied by ZeroMQ only below a few hundred bytes; larger frames are sent from where they lie.
        self._socket.send_multipart([_NUMBER.pack(self._number), *parts], zmq.NOBLOCK, copy=False)
        while self._wait(zmq.POLLIN, deadline):
            (answer,) = self._socket.recv_multipart(zmq.NOBLOCK)
            # Late answers for messages that were given up come first.
            if _NUMBER.unpack(answer)[0] == self._number:
                return
        raise ConnectorTimeoutError(f"the consumer did not acknowledge a message for {timeout_s:g} s")

    def _wait(self, event: int, deadline: float) -> bool:
        return bool(self._socket.poll(max(0, math.ceil((deadline - time.monotonic()) * 1000)), event))

    def close(self) -> None:
        self._socket.close()
