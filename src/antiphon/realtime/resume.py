"""What a client that comes back says about itself."""

from dataclasses import dataclass

from antiphon.wire.realtime.client_events import SessionResume
from antiphon.wire.realtime.errors import RealtimeError


@dataclass(frozen=True)
class ResumeRequest:
    session_id: str
    token: str
    last_seq: int


def parse_resume(event: SessionResume) -> ResumeRequest:
    """Raises RealtimeError `invalid_session_resume`."""
    for name, value in (("session_id", event.session_id), ("resume_token", event.resume_token)):
        if not isinstance(value, str) or not value:
            raise RealtimeError("invalid_session_resume", f"{name} must be a string", param=name)
    seq = event.last_received_server_event_seq
    if isinstance(seq, bool) or not isinstance(seq, int) or seq < 0:
        name = "last_received_server_event_seq"
        raise RealtimeError("invalid_session_resume", f"{name} must be a number from 0", param=name)
    return ResumeRequest(str(event.session_id), str(event.resume_token), seq)
