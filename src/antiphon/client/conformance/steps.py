"""What several cases do alike: make the scripted model speak, and look at what it said."""

from antiphon.client.conformance.peer import Event, Peer, equal, require
from antiphon.client.conformance.sounds import loud

ANSWER_MS = 4000  # four pieces of a second each


async def ask(peer: Peer, duration_ms: float = 1500, **commit: object) -> str:
    """Speak and commit; gives the id of the response that begins."""
    await peer.append(loud(duration_ms))
    await peer.commit(**commit)
    return str((await peer.get("response.created"))["response_id"])


async def answered(peer: Peer, **commit: object) -> tuple[str, Event]:
    """One whole spoken response: its id and its `response.done`."""
    response_id = await ask(peer, 1500, **commit)
    done = await peer.get("response.done", timeout_s=15)
    equal(done["response_id"], response_id, "the response that is done")
    return response_id, done


async def done_status(peer: Peer, timeout_s: float = 15) -> tuple[str, str]:
    """Status and reason of the next response that is done."""
    response = (await peer.get("response.done", timeout_s))["response"]
    return response["status"], response["status_details"]["reason"]


def types(events: list[Event]) -> list[str]:
    return [event["type"] for event in events]


def of_type(events: list[Event], kind: str) -> list[Event]:
    return [event for event in events if event["type"] == kind]


def no_output_after(events: list[Event], response_id: str) -> None:
    """Nothing of a response that is over may follow."""
    late = [event["type"] for event in events if event.get("response_id") == response_id and "delta" in event["type"]]
    require(not late, f"stale output: {late}")


async def pcm_done(peer: Peer) -> None:
    """The last second has been listened to."""
    await peer.get("response.listen")
