"""From the engine's outputs to responses: when one begins, what keeps it running, how it ends."""

from collections.abc import Callable
from dataclasses import replace

from msgspec import UNSET

from antiphon.realtime.conversation import Item, Role
from antiphon.realtime.engine import Cancel, Decided, Speech, UnitDone, UnitFailed
from antiphon.realtime.limits import UNIT_MS, UNIT_SAMPLES
from antiphon.realtime.response import COMPLETED, Ending, Response
from antiphon.realtime.session_state import SessionState
from antiphon.realtime.turn import TurnEvent
from antiphon.realtime.unit_chain import Link
from antiphon.realtime.usage import Usage
from antiphon.wire.realtime import server_events as events
from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.json_frame import JsonObject
from antiphon.wire.realtime.response_options import ResponseOptions

_PERIOD_S = UNIT_MS / 1000


class OutputFlow:
    """Owns the running response. `on_begin` is called before the model begins one of its own accord, `on_end` is told
    how each one ended, after its last event."""

    def __init__(self, state: SessionState, on_begin: Callable[[], None], on_end: Callable[[Ending], None]) -> None:
        self._state = state
        self._on_begin = on_begin
        self._on_end = on_end
        self._held_text = ""  # said by speech that has not come yet
        self._num_input_units = 0  # seconds of the client's input that the engine is done with

    # --- begin

    def open_response(self, options: ResponseOptions, *, was_asked_for: bool) -> Response:
        """Begin a response and tell the client; at most one runs."""
        state = self._state
        assert state.response is None
        settings = state.settings
        if options.modalities is not None:
            settings = replace(settings, modalities=options.modalities)
        if options.output_format is not None:
            settings = replace(settings, output_format=options.output_format)
        if options.max_tokens is not None:
            limit = None if isinstance(options.max_tokens, str) else options.max_tokens
            settings = replace(settings, max_response_tokens=limit)
        response_id = f"resp-{state.id}-{state.epoch}-{state.ids.new_hex(8)}"
        response = Response(
            state.emit,
            session_id=state.id,
            epoch=state.epoch,
            turn_id=state.turn_id,
            settings=settings,
            playback=state.ledger.open(response_id, state.turn_id),
            previous_item_id=state.conversation.tail,
            client_metadata=options.metadata,
            was_asked_for=was_asked_for,
        )
        response.usage, state.unbilled = state.unbilled, Usage()
        state.response = response
        self._held_text = ""
        state.conversation.mark_answered()
        item = Item(response.item_id, Role.ASSISTANT, response.final_item("in_progress"), is_audio=response.speaks)
        state.conversation.add(item)
        state.fire_turn(TurnEvent.ASSISTANT_STARTED)
        response.open()
        return response

    # --- what the engine says

    def decided(self, output: Decided) -> None:
        link = self._present(output.epoch, output.number)
        if link is None:
            return
        state = self._state
        response = state.response
        if output.speak:
            if response is None:
                self._on_begin()
                response = self.open_response(ResponseOptions(), was_asked_for=False)
            response.input_unit = self._input_unit(link)
            response.speak()
        elif response is None:
            if state.settings.auto_response:
                self.beat("model_listen", input_unit=self._input_unit(link))
        elif not response.has_spoken and link.unit.is_final and self._is_one_shot:
            self.listen("model_listen")

    def speech(self, output: Speech) -> None:
        state = self._state
        link = self._present(output.epoch, output.number)
        if link is None or state.response is None:
            return
        response = state.response
        response.input_unit = self._input_unit(link)
        text = self._held_text + output.text
        if response.speaks and not len(output.samples):
            self._held_text = text
            return
        self._held_text = ""
        state.has_spoken = True
        response.say(output.samples, text, state.now_s)

    def unit_done(self, output: UnitDone) -> None:
        state = self._state
        is_present = self._present(output.epoch, output.number) is not None
        link = state.chain.finish(output.epoch, output.number)
        if link is None:
            return
        self._num_input_units += not link.unit.is_silence
        response = state.response if is_present else None
        (state.unbilled if response is None else response.usage).add(output)
        state.total.add(output)
        if response is not None:
            self._after_unit(response, link, output)
        elif link.unit.is_final and is_present and state.settings.auto_response:
            # The turn was taken in and the model goes on listening: the floor is still the user's.
            state.fire_turn(TurnEvent.USER_STARTED)
            self._tell_turn("user_started")
        state.submit_next()

    def unit_failed(self, output: UnitFailed) -> None:
        """The running response fails, and whatever was queued behind the unit goes with it; the session stays."""
        state = self._state
        is_present = self._present(output.epoch, output.number) is not None
        link = state.chain.finish(output.epoch, output.number)
        if link is None:
            return
        self._num_input_units += not link.unit.is_silence
        state.chain.drop_waiting()
        if is_present:
            self.fail(output.code, output.message)

    def fail(self, code: str, message: str) -> None:
        """Tell the error, then end the running response by it."""
        self._state.emitter.error(RealtimeError(code, message))
        if self._state.response is not None:
            self.finish(Ending("failed", code, code, message))

    # --- end

    def finish(self, ending: Ending) -> None:
        """End the running response: its terminal set, the item, the history."""
        state = self._state
        response = state.response
        assert response is not None
        if ending.is_whole and self._held_text:
            ending = self._settle_held_text(response, ending)
        state.response = None
        response.finish(ending)
        playback = response.playback
        if not ending.is_whole:
            playback.release()
        elif not response.speaks or response.settings.playback_commit_policy == "commit_all_on_done":
            playback.heard_all()
        self.update_item(response.id, ending.status, whole=not response.speaks and ending.is_whole)
        state.fire_turn(TurnEvent.ASSISTANT_DONE)
        if not playback.is_owed:
            state.fire_turn(TurnEvent.PLAYED)
        self._on_end(ending)

    def listen(self, reason: str) -> None:
        """A response that said nothing ends by a listen with its id, and its terminal set."""
        response = self._state.response
        assert response is not None
        self.beat(reason, response.id)
        self.finish(Ending("completed", reason))

    def beat(self, reason: str, response_id: str | None = None, *, input_unit: int | None = None) -> None:
        state = self._state
        metadata: JsonObject = {"session_id": state.id, "epoch": state.epoch, "reason": reason}
        if input_unit is not None:
            metadata["input_unit"] = input_unit
        shown: JsonObject = {"object": "realtime.response", "status": "listening", "metadata": metadata}
        if response_id is not None:
            shown["id"] = response_id
        state.emit(
            events.Listen(
                session_id=state.id,
                epoch=state.epoch,
                reason=reason,
                response=shown,
                response_id=UNSET if response_id is None else response_id,
            )
        )

    def update_item(self, response_id: str, status: str, *, whole: bool = False) -> bool:
        """Bring item and history up to what was heard. True: the history has text of this response."""
        state = self._state
        playback = state.ledger.get(response_id)
        item_id = f"item_{response_id}"
        if playback is None or item_id not in state.conversation:
            return False
        item = state.conversation.get(item_id)
        text = playback.shown_text()
        item.heard = text if whole else playback.heard_text()
        content: JsonObject = (
            {
                "type": "output_audio",
                "transcript": text,
                "audio_duration_ms": playback.sent_ms,
                "audio_text_marks": playback.shown_marks(),
            }
            if item.is_audio
            else {"type": "output_text", "text": text}
        )
        item.shown = {**item.shown, "status": status, "content": [content]}
        return bool(item.heard)

    # --- cancel

    def start_epoch(self) -> None:
        """The fence: from here on, no output made before this is let through."""
        state = self._state
        response = state.response
        state.epoch += 1
        state.chain.start_epoch(state.epoch, None if response is None else response.id)
        heard = "" if response is None else response.playback.heard_text()
        state.commands.append(Cancel(state.epoch, heard))

    def cancel(self, reason: str) -> None:
        """Cut the running response off."""
        self.start_epoch()
        self.finish(Ending("cancelled", reason))
        self._state.submit_next()

    def interrupt(self, reason: str) -> bool:
        """Stop whatever the client hears: a running response, or one that it still plays. False: there is none."""
        state = self._state
        if state.response is not None:
            self.cancel(reason)
        else:
            owed = state.ledger.owed()
            if not owed:
                return False
            self.start_epoch()
            for playback in owed:
                self.clear_playback(playback.response_id)
        state.fire_turn(TurnEvent.INTERRUPTED)
        return True

    def clear_playback(self, response_id: str | None) -> None:
        """The client shall drop what it has of a response that is done."""
        playback = None if response_id is None else self._state.ledger.get(response_id)
        if playback is not None:
            playback.release()
        self._state.emit(events.OutputAudioCleared(response_id=response_id))

    # --- silence units that keep a response running

    def next_silence_s(self) -> float | None:
        """When the next one is due: a second after the last unit, later while real audio trickles in."""
        state = self._state
        if state.response is None or len(state.chain):
            return None
        due = state.last_submission_s + _PERIOD_S
        if state.settings.auto_response and 0 < state.buffer.num_samples < UNIT_SAMPLES:
            due = max(due, state.last_append_s + _PERIOD_S)
        return due

    def tick(self) -> None:
        due = self.next_silence_s()
        state = self._state
        if due is not None and state.now_s >= due:
            self.push_silence()

    def push_silence(self) -> None:
        """Let the running response go on for a second in which nobody speaks."""
        state, response = self._state, self._state.response
        assert response is not None
        response.num_silence_units += 1
        response.num_quiet_units += 1
        state.chain.push_silence(epoch=state.epoch, force_listen=self._is_last(response), response_id=response.id)
        state.submit_next()

    @property
    def _is_one_shot(self) -> bool:
        """Whether a response is over when the model, having heard the whole turn, does not speak at once."""
        return not self._state.settings.auto_response and not self._state.rules.answers_every_request

    def _is_last(self, response: Response) -> bool:
        limits = self._state.limits
        is_turn = not self._state.settings.auto_response
        return response.num_silence_units >= limits.continuation_limit_auto or (
            (is_turn or response.was_asked_for) and response.num_quiet_units >= limits.continuation_limit_turn
        )

    def _after_unit(self, response: Response, link: Link, output: UnitDone) -> None:
        if link.unit.is_silence and link.unit.force_listen:
            if response.has_spoken:
                self.finish(Ending("completed", "continuation_limit"))
            else:
                self.listen("continuation_limit")
        elif output.end_of_turn:
            if response.has_spoken:
                self.finish(COMPLETED)
            else:
                self.listen("model_turn_completed_without_output")
        elif self._is_quiet(response, link):
            response.num_quiet_units += 1
            if response.num_quiet_units >= self._state.limits.continuation_limit_turn:
                self.listen("continuation_limit")
        limit = response.settings.max_response_tokens
        if limit is not None and self._state.response is response and response.usage.num_output_tokens >= limit:
            self._stop_at_limit(response)

    def _is_quiet(self, response: Response, link: Link) -> bool:
        """Whether nobody spoke in a real second, and the model, which was asked to, could have."""
        was_asked = response.was_asked_for and not response.has_spoken
        is_behind_turn = self._state.chain.num_commits == 0
        return was_asked and is_behind_turn and not (link.unit.is_silence or link.unit.is_speech)

    def _stop_at_limit(self, response: Response) -> None:
        """The model would go on; what it has said so far stands."""
        if response.settings.playback_commit_policy == "commit_all_on_done":
            response.playback.heard_all()
        self.start_epoch()
        self.finish(Ending("incomplete", "max_output_tokens"))

    def _settle_held_text(self, response: Response, ending: Ending) -> Ending:
        """Text whose speech never came: the end of a sentence is still shown, a reply without sound is a failure."""
        if response.playback.num_samples:
            response.say_text_of_speech(self._held_text, self._state.now_s)
            return ending
        code, message = "runtime_data_plane_text_without_audio", "the model wrote text but made no speech for it"
        self._state.emitter.error(RealtimeError(code, message))
        return Ending("failed", code, code, message)

    def _input_unit(self, link: Link) -> int | None:
        """Which second of the client's input *link* is, from 0; None for silence that the server made."""
        return None if link.unit.is_silence else self._num_input_units

    def _present(self, epoch: int, number: int) -> Link | None:
        """The unit in flight, if the output is of it and of nothing that was cancelled or cleared."""
        state = self._state
        link = state.chain.in_flight
        if link is None or (link.unit.epoch, link.unit.number) != (epoch, number) or epoch != state.epoch:
            return None
        active = None if state.response is None else state.response.id
        if link.response_id is not None and link.response_id != active:
            return None
        if state.response is None and not state.settings.auto_response:
            return None
        return link

    def _tell_turn(self, event: str) -> None:
        state = self._state
        state.emit(
            events.TurnChanged(session_id=state.id, event=event, turn_state=state.turn.state.value, epoch=state.epoch)
        )
