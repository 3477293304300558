"""Who may upgrade. Cases C108, C109, C115."""

import pytest
from starlette.datastructures import Headers

from antiphon.serving.realtime.gate import Gate
from antiphon.serving.realtime.settings import RealtimeSettings

HERE, ELSEWHERE = "127.0.0.1", "203.0.113.7"


def status(
    *,
    origin: str | None = None,
    host: str = "127.0.0.1:8099",
    address: str = HERE,
    keys: tuple[str, ...] = (),
    origins: tuple[str, ...] = (),
    key: str | None = None,
    protocols: tuple[str, ...] = (),
) -> int:
    headers = {"host": host}
    if origin is not None:
        headers["origin"] = origin
    if key is not None:
        headers["authorization"] = key
    gate = Gate(RealtimeSettings(api_keys=keys, allowed_origins=origins))
    denial = gate.check(Headers(headers), protocols, address, 0.0)
    return 101 if denial is None else denial.status


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (None, 101),
        ("http://127.0.0.1:8099", 101),
        ("http://127.0.0.1:3000", 403),
        ("http://evil.example", 403),
        ("null", 403),
        ("", 403),
        ("file://", 403),
        ("http://[broken", 403),
    ],
)
def test_c109_a_page_from_elsewhere_is_refused(origin: str | None, expected: int):
    assert status(origin=origin) == expected


def test_c109_a_name_that_was_pointed_here_is_not_the_servers_own():
    rebound = {"origin": "http://evil.example:8099", "host": "evil.example:8099"}
    assert status(**rebound) == 403
    assert status(**rebound, keys=("k",), key="Bearer k") == 101
    assert status(**rebound, origins=("http://evil.example:8099",)) == 101


@pytest.mark.parametrize("host", ["localhost:8099", "127.0.0.1", "192.168.1.5:8099", "[::1]:8099"])
def test_c109_a_page_of_the_servers_own_number_is_its_own(host: str):
    assert status(origin=f"http://{host}", host=host) == 101


@pytest.mark.parametrize("address", [HERE, "::1", "::ffff:127.0.0.1", "", "testclient"])
def test_c109_a_client_of_this_machine_needs_neither_origin_nor_key(address: str):
    assert status(address=address) == 101


def test_c109_a_client_of_another_machine_needs_a_key_unless_the_server_is_open_to_all():
    assert status(address=ELSEWHERE) == 403
    assert status(address=ELSEWHERE, keys=("k",)) == 401
    assert status(address=ELSEWHERE, keys=("k",), key="Bearer k") == 101
    assert status(address=ELSEWHERE, origins=("*",)) == 101


def test_c115_a_refusal_names_the_setting():
    gate = Gate(RealtimeSettings())
    for headers, address in (({"origin": "https://tunnel.example", "host": "tunnel.example"}, HERE), ({}, ELSEWHERE)):
        denial = gate.check(Headers(headers), (), address, 0.0)
        assert denial is not None
        assert "--allowed-origins" in denial.message


def test_c115_a_forwarded_host_counts_for_nothing():
    headers = Headers({"origin": "http://evil.example", "host": "127.0.0.1:8099", "x-forwarded-host": "evil.example"})
    denial = Gate(RealtimeSettings()).check(headers, (), HERE, 0.0)
    assert denial is not None
    assert denial.status == 403


@pytest.mark.parametrize(
    ("key", "protocols", "expected"),
    [
        (None, (), 401),
        ("Bearer wrong", (), 401),
        ("Basic good", (), 401),
        ("good", (), 401),
        ("Bearer good", (), 101),
        ("bearer  good ", (), 101),
        (None, ("realtime", "openai-insecure-api-key.good"), 101),
        (None, ("openai-insecure-api-key.wrong",), 401),
        (None, ("openai-insecure-api-key.",), 401),
        ("Bearer \u00e9", (), 401),
    ],
)
def test_c108_the_key_is_taken_from_the_header_or_the_subprotocol(
    key: str | None, protocols: tuple[str, ...], expected: int
):
    assert status(keys=("good", "other"), key=key, protocols=protocols) == expected


def test_a_flood_of_one_address_is_stopped_and_another_is_not():
    gate = Gate(RealtimeSettings(max_handshakes_per_minute=2))
    found = [gate.check(Headers({}), (), HERE, now_s) for now_s in (0.0, 1.0, 2.0, 61.5)]
    assert [denial and denial.status for denial in found] == [None, None, 429, None]
    assert gate.check(Headers({}), (), "::1", 2.0) is None
