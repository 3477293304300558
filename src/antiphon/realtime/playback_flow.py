"""Acknowledged playback, truncation, and what they make of the history (specification section 12)."""

from antiphon.realtime.conversation import Role
from antiphon.realtime.output_flow import OutputFlow
from antiphon.realtime.playback import Playback
from antiphon.realtime.session_state import SessionState
from antiphon.realtime.turn import TurnEvent
from antiphon.wire.realtime import server_events as events
from antiphon.wire.realtime.client_events import ItemTruncate, PlaybackAck
from antiphon.wire.realtime.errors import RealtimeError

_PREFIX = "item_"


class PlaybackFlow:
    """Owns the question whether an acknowledgement still may change the history."""

    def __init__(self, state: SessionState, output: OutputFlow) -> None:
        self._state = state
        self._output = output

    def acknowledge(self, event: PlaybackAck) -> None:
        playback = self._target(event)
        if not playback.is_acknowledged and self._is_too_late(playback):
            raise RealtimeError("playback_ack_too_late", "the user has committed another turn since this response")
        if event.truncate is True:
            self._cut(playback, min(event.committed_ms or event.played_ms, playback.sent_ms), 0)
            return
        playback.acknowledge(event.played_ms, event.committed_ms)
        self._settle(playback, is_truncation=False)

    def truncate(self, event: ItemTruncate) -> None:
        state = self._state
        item = state.conversation.get(event.item_id)
        if item.role is not Role.ASSISTANT:
            raise RealtimeError("bad_event", "only items of the assistant can be truncated", param="item_id")
        playback = state.ledger.get(item.id.removeprefix(_PREFIX))
        if playback is None or not item.is_audio or event.content_index != 0:
            raise RealtimeError("bad_event", "content_index does not name a part with audio", param="content_index")
        end_ms = min(event.audio_end_ms, playback.sent_ms) if state.rules.clamps_truncation else event.audio_end_ms
        if not 0 <= end_ms <= playback.sent_ms:
            raise RealtimeError(
                "bad_event",
                f"audio_end_ms is {end_ms}; 0 to {playback.sent_ms} is possible",
                param="audio_end_ms",
            )
        self._cut(playback, end_ms, event.content_index)

    def tick(self) -> bool:
        """Count as heard what nobody acknowledged for too long. True: something was settled."""
        state = self._state
        running = None if state.response is None else state.response.id
        settled = state.ledger.settle(state.now_s, running)
        for playback in settled:
            self._output.update_item(playback.response_id, "completed")
        if settled and not state.ledger.owed():
            state.fire_turn(TurnEvent.PLAYED)
        return bool(settled)

    def _cut(self, playback: Playback, audio_end_ms: float, content_index: int) -> None:
        state = self._state
        playback.truncate(audio_end_ms)
        self._output.update_item(playback.response_id, self._status(playback))
        state.emit(
            events.ItemTruncated(
                item_id=playback.item_id,
                content_index=content_index,
                audio_end_ms=audio_end_ms,
                event={
                    "type": "conversation.item.truncated",
                    "session_id": state.id,
                    "item_id": playback.item_id,
                    "audio_end_ms": audio_end_ms,
                    "transcript": playback.shown_text(),
                },
            )
        )
        self._settle(playback, is_truncation=True)

    def _settle(self, playback: Playback, *, is_truncation: bool) -> None:
        state = self._state
        is_committed = self._output.update_item(playback.response_id, self._status(playback))
        if not state.is_in_progress:
            state.fire_turn(TurnEvent.PLAYED)
        state.emit(
            events.PlaybackAcknowledged(
                event={
                    "type": "playback.acknowledged",
                    "session_id": state.id,
                    "epoch": state.epoch,
                    "item_id": playback.item_id,
                    "response_id": playback.response_id,
                    "played_ms": playback.played_ms,
                    "committed_ms": playback.committed_ms,
                    "truncate": is_truncation,
                    "playback": playback.cursors(),
                    "history_committed": is_committed,
                    "history_text": playback.heard_text(),
                }
            )
        )

    def _status(self, playback: Playback) -> str:
        item = self._state.conversation.get(playback.item_id) if playback.item_id in self._state.conversation else None
        return "completed" if item is None else str(item.shown["status"])

    def _target(self, event: PlaybackAck) -> Playback:
        state = self._state
        response_id = event.response_id
        if response_id is not None and event.item_id is not None and event.item_id != f"{_PREFIX}{response_id}":
            raise RealtimeError("playback_item_mismatch", "item_id is not that of response_id", param="item_id")
        if response_id is None and event.item_id is not None:
            response_id = event.item_id.removeprefix(_PREFIX)
        if response_id is not None:
            playback = state.ledger.get(response_id)
        else:
            owed = state.ledger.owed()
            if len(owed) == 1:
                return owed[0]
            playback = state.ledger.latest() if state.response is None else state.response.playback
        if playback is None:
            raise RealtimeError("playback_item_not_found", "there is no such response to acknowledge")
        return playback

    def _is_too_late(self, playback: Playback) -> bool:
        """Whether the user committed a turn after the response began: its place in the history is taken."""
        return playback.turn_id is not None and playback.turn_id < self._state.turn_id
