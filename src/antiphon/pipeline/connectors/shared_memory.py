"""A ring in shared memory between two processes of one host: one copy in, one copy out, nothing left behind.

The payload goes through the ring, and a small *descriptor* (position, length, sequence) through a Unix socket. The
descriptor is what publishes a record. That gives four things without a line of lock-free code:

- Order. Python has no memory barriers. A socket hands a descriptor over under the kernel's locks: what the producer
  wrote before it sent is seen by the consumer that received, on x86 and on ARM. Room comes back the same way: the
  consumer sends a credit after it has copied a record out, and only then does the producer write there again.
- Wake-up. The consumer sleeps in poll() on the socket, the producer too when the ring is full. Nobody spins.
- Death. A killed producer has sent no descriptor of the record it was writing, so half a record cannot be read, and the
  socket's end tells the consumer at once. The same holds the other way round.
- Lifetime. The consumer creates the segment; the producer removes the name when it has opened it and is connected, and
  the memory lives as long as the two processes do.

When the ring is full `put` waits (back-pressure) up to its timeout; then the message is withdrawn and its request ends.
A message larger than the ring's part is split over records and put together again by the consumer.
"""

import os
import select
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress

import torch
from torch import Tensor

from antiphon.core.errors import ConfigError, StateError
from antiphon.pipeline.connectors.connector import ConnectorClosedError, ConnectorTimeoutError
from antiphon.pipeline.connectors.ring import Ring
from antiphon.pipeline.connectors.segment_names import create_segment, new_segment_name, open_segment, unlink_segment
from antiphon.pipeline.encoding import Encoded, MessageEncoding, frame_offsets, head_of, split_run

RING_BYTES = 8 * 2**20  # 16 replies of 60 tokens × 4096 × bf16, far beyond what is ever on the way
# Each descriptor is a small socket buffer of its own: more of them than this could fill the socket before the ring.
_MAX_RECORDS = 128
# message number, bytes of the whole message, position of the record, its bytes, its CRC-32 (if bit 0 of the flags)
_RECORD = struct.Struct("<QQQQII")
_CREDIT = struct.Struct("<Q")  # bytes taken since the beginning; one credit for each record
_PEER_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class SharedMemoryInlet:
    """The consumer's end; it creates the ring and waits for one producer of the same user.

    Args:
        edge: a word for people, part of the segment's name.
        num_bytes: of the ring.
    """

    def __init__(self, encoding: MessageEncoding, *, edge: str, num_bytes: int = RING_BYTES) -> None:
        self._encoding = encoding
        self._name = new_segment_name(edge)
        try:
            self._ring = Ring(create_segment(self._name, num_bytes), num_bytes)
        except OSError as error:
            raise ConfigError(
                f"no shared memory for a ring of {num_bytes} bytes: {error.strerror}; give /dev/shm more room"
            ) from error
        self._listener: socket.socket | None = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.setblocking(False)
        self._listener.bind(_socket_name(self._name))
        self._listener.listen(1)
        self._peer: socket.socket | None = None
        self._num_taken = 0  # bytes since the beginning
        self._run: Tensor | None = None  # message in the making
        self._filled = 0
        self._message_number = 0
        self._is_closed = False

    @property
    def address(self) -> str:
        return f"shm:{self._name}:{self._ring.num_bytes}"

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def descriptors(self) -> Sequence[int]:
        return [end.fileno() for end in (self._listener, self._peer) if end is not None]

    def get(self) -> list[object]:
        messages: list[object] = []
        if self._listener is not None:
            self._accept()
        while self._peer is not None and not self._is_closed:
            try:
                record = self._peer.recv(_RECORD.size)
            except BlockingIOError:
                break
            except ConnectionResetError:
                # Said once when the producer left credits unread; the descriptors it had sent are still to come.
                continue
            if not record:
                self._is_closed = True
            elif (message := self._take(*_RECORD.unpack(record))) is not None:
                messages.append(message)
        return messages

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
            unlink_segment(self._name)
        if self._peer is not None:
            self._peer.close()
        self._ring.close()
        self._listener, self._peer, self._run, self._is_closed = None, None, None, True

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            peer, _ = self._listener.accept()
        except BlockingIOError:
            return
        if not _is_same_user(peer):
            peer.close()
            return
        peer.setblocking(False)
        self._peer = peer
        self._listener.close()
        self._listener = None

    def _take(self, number: int, total: int, position: int, size: int, checksum: int, flags: int) -> object | None:
        if self._run is None or number != self._message_number:
            # The producer gave the message before this one up half-way if it is still in the making.
            self._run, self._filled, self._message_number = torch.empty(total, dtype=torch.uint8), 0, number
        if position != self._num_taken or self._filled + size > total:
            raise StateError(f"ring {self._name}: record {number} at {position} does not follow {self._num_taken}")
        if flags and self._ring.checksum(position, size) != checksum:
            raise StateError(f"ring {self._name}: record {number} was damaged on the way")
        self._ring.read(position, self._run[self._filled : self._filled + size])
        self._filled += size
        self._num_taken += size
        self._give_credit()
        if self._filled < self._run.numel():
            return None
        run, self._run = self._run, None
        return self._encoding.decode(*split_run(run))

    def _give_credit(self) -> None:
        assert self._peer is not None
        with suppress(ConnectionError):  # the next recv tells
            self._peer.send(_CREDIT.pack(self._num_taken))


class SharedMemoryOutlet:
    """The producer's end.

    Args:
        address: what `SharedMemoryInlet.address` said.
        use_checksum: add a CRC-32 to each record, for hunting faults; costs a pass over the bytes at both ends.
    """

    def __init__(self, address: str, encoding: MessageEncoding, *, use_checksum: bool = False) -> None:
        kind, name, num_bytes = address.split(":")
        if kind != "shm":
            raise ConfigError(f"{address!r} is no address of a shared-memory ring")
        self._encoding = encoding
        self._use_checksum = use_checksum
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._ring = Ring(open_segment(name), int(num_bytes))
            self._socket.connect(_socket_name(name))
            unlink_segment(name)  # both ends have it now; from here on no death can leave it behind
        except OSError as error:
            self._socket.close()
            raise ConnectorClosedError(f"the consumer of ring {name} is gone") from error
        self._socket.setblocking(False)
        self._max_record = int(num_bytes) // 4
        self._num_written = 0  # bytes since the beginning
        self._num_credited = 0
        self._records_out = 0
        self._number = 0

    def put(self, message: object, *, timeout_s: float) -> None:
        encoded = self._encoding.encode(message)
        deadline = time.monotonic() + timeout_s
        pieces, total = _lay_out(encoded)
        self._number += 1
        sent = 0
        while sent < total:
            size = min(total - sent, self._max_record)
            if not self._wait_for_room(size, deadline) or not self._publish(pieces, sent, size, total, deadline):
                raise ConnectorTimeoutError(f"the consumer made no room in the ring for {timeout_s:g} s")
            sent += size

    def close(self) -> None:
        self._socket.close()
        self._ring.close()

    def _publish(self, pieces: list[tuple[int, Tensor]], start: int, size: int, total: int, deadline: float) -> bool:
        """Write a part of the message's run and tell the consumer; False: it could not be told in time."""
        for offset, piece in pieces:
            low, high = max(start, offset), min(start + size, offset + piece.numel())
            if low < high:
                self._ring.write(self._num_written + low - start, piece[low - offset : high - offset])
        checksum = self._ring.checksum(self._num_written, size) if self._use_checksum else 0
        record = _RECORD.pack(self._number, total, self._num_written, size, checksum, self._use_checksum)
        while True:
            try:
                self._socket.send(record)
            except BlockingIOError:
                if not self._wait(select.POLLOUT, deadline):
                    return False
            except ConnectionError as error:
                raise ConnectorClosedError("the consumer of the ring is gone") from error
            else:
                self._num_written += size
                self._records_out += 1
                return True

    def _wait_for_room(self, size: int, deadline: float) -> bool:
        self._take_credits()
        while self._num_written + size - self._num_credited > self._ring.num_bytes or self._records_out >= _MAX_RECORDS:
            if not self._wait(select.POLLIN, deadline):
                return False
            self._take_credits()
        return True

    def _take_credits(self) -> None:
        while True:
            try:
                credit = self._socket.recv(_CREDIT.size)
            except BlockingIOError:
                return
            except ConnectionResetError:
                credit = b""
            if not credit:
                raise ConnectorClosedError("the consumer of the ring is gone")
            (self._num_credited,) = _CREDIT.unpack(credit)
            self._records_out -= 1

    def _wait(self, event: int, deadline: float) -> bool:
        poller = select.poll()
        poller.register(self._socket, event)
        return bool(poller.poll(max(0.0, deadline - time.monotonic()) * 1000))


def _lay_out(encoded: Encoded) -> tuple[list[tuple[int, Tensor]], int]:
    """The message as one run of bytes: where each piece of it starts, and the length. Gaps keep what was there."""
    head = torch.frombuffer(bytearray(head_of(encoded)), dtype=torch.uint8)
    starts, total = frame_offsets(head.numel(), [frame.numel() for frame in encoded.frames])
    return [(0, head), *zip(starts, encoded.frames, strict=True)], total


def _socket_name(segment: str) -> str:
    """In Linux's abstract space: no file, so nothing to leave behind."""
    return f"\0{segment}"


def _is_same_user(peer: socket.socket) -> bool:
    """Abstract sockets have no permissions; the kernel says who called."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
    _, uid, _ = _PEER_CREDENTIALS.unpack(credentials)
    return bool(uid == os.getuid())
