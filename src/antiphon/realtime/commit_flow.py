"""The end of a user's turn: what a commit makes of the input, and the responses that follow from it."""

from collections import deque
from dataclasses import dataclass

from antiphon.realtime.conversation import Item, Role, user_audio_item
from antiphon.realtime.input_buffer import SAMPLE_BYTES, Second
from antiphon.realtime.input_flow import InputFlow
from antiphon.realtime.limits import INPUT_RATE_HZ, MIN_COMMIT_MS, UNIT_SAMPLES
from antiphon.realtime.output_flow import OutputFlow
from antiphon.realtime.response import Ending
from antiphon.realtime.session_state import SessionState
from antiphon.realtime.turn import TurnEvent
from antiphon.wire.realtime import server_events as events
from antiphon.wire.realtime.client_events import InputAudioCommit, ResponseCreate
from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.json_frame import JsonObject
from antiphon.wire.realtime.response_options import ResponseOptions, parse_response_options

_ROUNDING_MS = 0.13  # a sample at the lowest rate: 100 ms are no whole number of samples at every one


@dataclass(frozen=True, eq=False)
class Deferred:
    """A turn that was spoken over a response, and waits for its end."""

    seconds: list[Second]
    creates: bool


class CommitFlow:
    """Commits, `response.create`, and turns deferred behind a running response (specification sections 3.4, 3.5)."""

    def __init__(self, state: SessionState, inputs: InputFlow, output: OutputFlow) -> None:
        self._state = state
        self._inputs = inputs
        self._output = output
        self._deferred: deque[Deferred] = deque()

    @property
    def num_deferred_bytes(self) -> int:
        return sum(len(turn.seconds) for turn in self._deferred) * UNIT_SAMPLES * SAMPLE_BYTES

    # --- commit

    def commit_of_client(self, event: InputAudioCommit) -> None:
        """Close the turn because the client says so.

        Raises:
            RealtimeError: `input_audio_buffer_empty` for less than 100 ms, which stay in the buffer; else as `commit`.
        """
        turn = self._inputs.turn
        if turn.has_audio and turn.input_s * 1000 < MIN_COMMIT_MS - _ROUNDING_MS:
            raise RealtimeError(
                "input_audio_buffer_empty",
                f"a commit needs at least {MIN_COMMIT_MS} ms of audio; the buffer has {turn.input_s * 1000:.0f} ms and "
                "keeps it",
            )
        self.commit(event)

    def commit(self, event: InputAudioCommit, *, item_id: str | None = None, is_announced: bool = False) -> None:
        """Close the turn. *item_id* names its item; *is_announced*: that item was shown already."""
        state, turn = self._state, self._inputs.turn
        has_speech = turn.has_speech if event.is_speech is None else event.is_speech
        if not turn.has_audio:
            raise RealtimeError("input_audio_buffer_empty", "nothing was appended since the last commit")
        waiting = state.chain.num_commits + len(self._deferred)
        if (has_speech or item_id is not None) and waiting >= state.limits.max_pending_turns_per_session:
            raise RealtimeError(
                "input_backpressure", f"{waiting} committed turns wait already; this one stays in the buffer"
            )
        if event.transcript:
            turn.hints.append(event.transcript)
        if item_id is not None:
            turn.item_id = item_id
        elif not has_speech:
            if state.rules.closes_items and state.settings.auto_response:
                raise RealtimeError("input_audio_buffer_empty", "nobody spoke since the last item")
            self._commit_silence()
            return
        if turn.item_id is None:
            turn.item_id = state.new_item_id()
        state.turn_id += 1
        if state.settings.auto_response:
            self._commit_auto(is_announced=is_announced)
        else:
            self._commit_turn(creates=event.response_create is True, is_announced=is_announced)

    def _commit_auto(self, *, is_announced: bool) -> None:
        state, inputs = self._state, self._inputs
        inputs.flush_resampler()
        self._fan_out(is_announced=is_announced)
        seconds = inputs.drain(pad=True)
        if seconds:
            self._submit(seconds)
        else:
            state.chain.mark_final()
        inputs.start_turn()

    def _commit_turn(self, *, creates: bool, is_announced: bool) -> None:
        state, inputs = self._state, self._inputs
        turn = inputs.turn
        if state.rules.keeps_input:
            self._fan_out(is_announced=is_announced)
            inputs.retained += inputs.drain(pad=True)
            inputs.start_turn()
            return
        overlap_ms = turn.overlap_samples * 1000 / INPUT_RATE_HZ
        if state.is_in_progress and 0 < overlap_ms <= state.settings.overlap_short_ack_ms:
            self._fan_out(is_announced=is_announced, empty=True, extra={"overlap_ack": True})
            inputs.drain(pad=False)
            inputs.start_turn()
            return
        seconds = inputs.drain(pad=True)
        if state.is_in_progress:
            self._fan_out(
                is_announced=is_announced, extra={"overlap_deferred": True, "response_create_deferred": creates}
            )
            self._deferred.append(Deferred(seconds, creates))
        else:
            self._fan_out(is_announced=is_announced)
            self._answer(Deferred(seconds, creates))
        inputs.start_turn()

    def close_item(self) -> None:
        """End the user's item while the microphone stays open. The engine does not notice."""
        state, turn = self._state, self._inputs.turn
        if not (state.rules.closes_items and state.settings.auto_response and turn.has_speech):
            return
        if turn.item_id is None:
            turn.item_id = state.new_item_id()
        state.turn_id += 1
        self._fan_out()
        self._inputs.begin_item()

    def close_item_for_response(self) -> None:
        """The model begins to answer. A server VAD, where one runs, knows better when the user has stopped."""
        if not self._inputs.has_detector:
            self.close_item()

    def _commit_silence(self) -> None:
        """Nobody spoke: the item is shown, the model is asked nothing."""
        state, inputs = self._state, self._inputs
        if inputs.turn.item_id is None:
            inputs.turn.item_id = state.new_item_id()
        state.turn_id += 1
        self._fan_out(empty=True)
        if not state.settings.auto_response:  # an open microphone streams on
            inputs.drain(pad=False)
        inputs.start_turn()
        self._output.beat("silence_or_noise")

    def _fan_out(self, *, is_announced: bool = False, empty: bool = False, extra: JsonObject | None = None) -> None:
        state, turn = self._state, self._inputs.turn
        assert turn.item_id is not None
        self._inputs.tell_late()
        self._inputs.tell_stopped()
        shown = user_audio_item(turn.item_id, turn.transcript, is_speech=not empty)
        if not is_announced:
            item = Item(turn.item_id, Role.USER, shown, heard=turn.transcript, is_audio=True)
            state.conversation.add(item)
        item = state.conversation.get(turn.item_id)
        item.shown, previous = shown, item.previous_id
        state.fire_turn(TurnEvent.USER_COMMITTED)
        if not is_announced:
            state.emit(events.ItemAdded(previous_item_id=previous, item=shown))
            state.emit(events.ItemCreated(previous_item_id=previous, item=shown))
        inner: JsonObject = {
            "type": "input.committed",
            "session_id": state.id,
            "turn_id": state.turn_id,
            "epoch": state.epoch,
            "history_len": len(state.conversation),
            "native_audio": True,
            "message": {"role": "user", "content": shown["content"]},
            "realtime_item_id": turn.item_id,
        }
        if turn.transcript:
            inner["transcript"] = turn.transcript
        if empty:
            inner.update(empty=True, is_speech=False, no_response=True)
        inner.update(extra or {})
        state.emit(events.InputCommitted(previous_item_id=previous, item_id=turn.item_id, event=inner))
        if turn.transcript and not empty:
            state.emit(events.TranscriptionCompleted(item_id=turn.item_id, transcript=turn.transcript))
        state.emit(events.ItemDone(previous_item_id=previous, item=shown))

    # --- answers

    def create_response(self, event: ResponseCreate) -> None:
        """`response.create` of the vLLM dialect."""
        state = self._state
        options = parse_response_options(event.response)
        if state.is_in_progress:
            raise RealtimeError("response_already_active", "a response is generated or played already")
        if self.answer_retained(options) or len(state.chain):
            return  # what is under way will decide by itself
        if state.conversation.unanswered_texts():
            raise RealtimeError(
                "text_only_turn_unsupported",
                "this model answers sound only; text may open a session as initial_user_text",
            )
        raise RealtimeError("response_create_without_input", "there is no committed audio to answer")

    def response_ended(self, ending: Ending) -> None:
        """Turns that were spoken over the response come up now, or not at all if it was cut off."""
        if ending.status != "completed":
            self._deferred.clear()
            return
        self.promote()

    def promote(self) -> None:
        """The oldest deferred turn has its turn."""
        while self._deferred and self._state.response is None:
            self._answer(self._deferred.popleft())

    def clear(self) -> None:
        self._deferred.clear()

    def drop_unsent(self) -> None:
        """Committed audio that the engine has not got, of a response that was cancelled."""
        if not self._state.rules.keeps_input:
            self._inputs.retained.clear()
        self._state.chain.drop_committed()

    def answer_retained(self, options: ResponseOptions) -> bool:
        """A response to what was committed and not answered. False: there is no such audio."""
        if not self._inputs.retained:
            return False
        seconds, self._inputs.retained = self._inputs.retained, []
        self._open_and_submit(seconds, options)
        return True

    def _answer(self, turn: Deferred) -> None:
        if turn.creates:
            seconds = [*self._inputs.retained, *turn.seconds]
            self._inputs.retained = []
            self._open_and_submit(seconds, ResponseOptions())
        else:
            self._inputs.retained += turn.seconds

    def _open_and_submit(self, seconds: list[Second], options: ResponseOptions) -> None:
        self._output.open_response(options, was_asked_for=True)
        self._submit(seconds)

    def _submit(self, seconds: list[Second]) -> None:
        """The last second ends the turn. In turn mode the model hears all of it before it may speak."""
        is_turn = not self._state.settings.auto_response
        for second in seconds[:-1]:
            self._inputs.queue(second, force_listen=is_turn)
        self._inputs.queue(seconds[-1], is_final=True)
