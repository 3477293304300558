"""The command that serves the live page alone."""

import socket

import pytest

from antiphon.cli.main import BAD_INPUT, main


def test_what_is_no_server_is_one_line_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["page", "--server", "gpu:8099"]) == BAD_INPUT
    error = capsys.readouterr().err.strip()
    assert error.count("\n") == 0
    assert "'gpu:8099'" in error


def test_a_taken_port_is_said_by_number(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["page", "--port", str(port)]) == BAD_INPUT
    assert str(port) in capsys.readouterr().err
