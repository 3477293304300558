"""What to do when the user speaks while the assistant does: the policy of specification section 6.7, row by row."""

import unicodedata
from dataclasses import dataclass
from enum import Enum

from antiphon.realtime.settings import OverlapPolicy


class Action(str, Enum):
    BARGE_IN = "barge_in"
    LISTEN = "listen"
    DROP = "drop"


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """One append while a response is in progress."""

    is_auto: bool
    policy: OverlapPolicy
    is_speech: bool
    speech_ms: float  # of this overlap so far, this append included
    short_ack_ms: int
    asked_action: str | None = None
    force_barge_in: bool = False
    force_listen: bool = False
    transcript: str | None = None
    vad_started: bool | None = None  # None: no server VAD runs
    has_frames: bool = False


@dataclass(frozen=True)
class Verdict:
    """`keeps_audio` says whether the append's samples stay, `is_deferred` whether they wait for the response's end."""

    action: Action
    reason: str
    keeps_audio: bool
    is_deferred: bool = False


_BARGE_IN_WORDS = {"barge_in", "interrupt", "cancel"}
_LISTEN_WORDS = {"listen", "continue", "continue_output", "ack"}
_DROP_WORDS = {"drop", "ignore", "silence"}
_CHINESE = ("嗯", "嗯嗯", "对", "对的", "好", "好的", "继续", "继续说", "可以", "是的")
_ENGLISH = ("yes", "yeah", "yep", "ok", "okay", "continue", "right", "go on", "keep going", "please continue")
BACK_CHANNEL = frozenset((*_CHINESE, *_ENGLISH))


def is_explicit(overlap: Overlap) -> bool:
    """Whether the client itself asks for something: then a decision is due even when the policy is to listen."""
    return overlap.asked_action is not None or overlap.force_barge_in


def decide(overlap: Overlap) -> Verdict:
    """The first row that applies."""
    asked = (overlap.asked_action or "").lower()
    if asked in _BARGE_IN_WORDS:
        return Verdict(Action.BARGE_IN, "client_overlap_action", True)
    if asked in _LISTEN_WORDS:
        keeps = asked == "listen" and overlap.is_speech and overlap.speech_ms > overlap.short_ack_ms
        return Verdict(Action.LISTEN, "client_overlap_action", overlap.is_auto or keeps, keeps and not overlap.is_auto)
    if asked in _DROP_WORDS:
        return Verdict(Action.DROP, "client_overlap_action", False)
    if overlap.force_barge_in:
        return Verdict(Action.BARGE_IN, "client_force_barge_in", True)
    return _auto(overlap) if overlap.is_auto else _turn(overlap)


def _auto(overlap: Overlap) -> Verdict:
    if overlap.is_speech and overlap.policy is OverlapPolicy.BARGE_IN and overlap.vad_started is not False:
        return Verdict(Action.BARGE_IN, _speech_reason(overlap, "barge_in_on_speech"), True)
    return Verdict(Action.LISTEN, "auto_response_continuous", True)


def _turn(overlap: Overlap) -> Verdict:
    if overlap.force_listen:
        return Verdict(Action.LISTEN, "client_force_listen", True, True)
    if not overlap.is_speech:
        if overlap.has_frames:
            return Verdict(Action.LISTEN, "vision_follow", True, True)
        return Verdict(Action.DROP, "silence_or_noise", False)
    if overlap.transcript is not None and _plain(overlap.transcript) in BACK_CHANNEL:
        return Verdict(Action.LISTEN, "short_ack_transcript", False)
    if overlap.policy is OverlapPolicy.LISTEN_ONLY:
        return Verdict(Action.LISTEN, "policy_listen_only", True, True)
    if overlap.vad_started is False:
        return Verdict(Action.LISTEN, "server_vad_utterance_active", True, True)
    return Verdict(Action.BARGE_IN, _speech_reason(overlap, "policy_barge_in_on_speech"), True)


def _speech_reason(overlap: Overlap, otherwise: str) -> str:
    return "server_vad_speech_started" if overlap.vad_started else otherwise


def _plain(text: str) -> str:
    """Lower case, without punctuation, single blanks."""
    letters = "".join(" " if unicodedata.category(letter)[0] in "PSZ" else letter for letter in text.casefold())
    return " ".join(letters.split())
