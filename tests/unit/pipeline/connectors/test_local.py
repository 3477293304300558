import threading

import pytest
import torch

from antiphon.pipeline.connectors.connector import ConnectorClosedError, ConnectorTimeoutError
from antiphon.pipeline.connectors.local import LocalConnector
from antiphon.pipeline.messages import SpokenPiece


def test_the_message_itself_is_handed_over() -> None:
    calls: list[None] = []
    connector = LocalConnector(lambda: calls.append(None))
    piece = SpokenPiece(request_id="r", epoch=0, ids=(1,), rows=torch.ones(1, 4), is_last=True)
    connector.put(piece, timeout_s=0)
    (got,) = connector.get()
    assert got is piece
    assert len(calls) == 1


def test_a_full_connector_refuses_and_a_taken_message_makes_room() -> None:
    connector = LocalConnector(lambda: None, max_messages=2)
    connector.put(1, timeout_s=0)
    connector.put(2, timeout_s=0)
    with pytest.raises(ConnectorTimeoutError):
        connector.put(3, timeout_s=0)
    assert connector.get() == [1, 2]
    connector.put(3, timeout_s=0)
    assert connector.get() == [3]


def test_a_waiting_writer_goes_on_when_there_is_room() -> None:
    connector = LocalConnector(lambda: None, max_messages=1)
    connector.put(1, timeout_s=0)
    thread = threading.Thread(target=lambda: connector.put(2, timeout_s=10))
    thread.start()
    got: list[object] = []
    while len(got) < 2:
        got += connector.get()
    thread.join(5)
    assert got == [1, 2]


def test_after_closing_what_waits_is_still_taken() -> None:
    connector = LocalConnector(lambda: None)
    connector.put(1, timeout_s=0)
    connector.close()
    assert not connector.is_closed
    with pytest.raises(ConnectorClosedError):
        connector.put(2, timeout_s=0)
    assert connector.get() == [1]
    assert connector.is_closed
