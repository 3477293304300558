"""The cancel family: what each of its events clears, cancels and says (specification section 6.6)."""

from antiphon.realtime.commit_flow import CommitFlow
from antiphon.realtime.input_flow import InputFlow
from antiphon.realtime.output_flow import OutputFlow
from antiphon.realtime.session_state import SessionState
from antiphon.wire.realtime import server_events as events
from antiphon.wire.realtime.client_events import OutputAudioClear, ResponseCancel
from antiphon.wire.realtime.errors import RealtimeError


class CancelFlow:
    """Events of the client that take something back."""

    def __init__(self, state: SessionState, inputs: InputFlow, commits: CommitFlow, output: OutputFlow) -> None:
        self._state = state
        self._inputs = inputs
        self._commits = commits
        self._output = output

    def cancel_response(self, event: ResponseCancel) -> None:
        """The running response ends; live input goes on, committed input that nobody has heard does not."""
        response = self._state.response
        if response is None or event.response_id not in (None, response.id):
            raise RealtimeError("response_not_active", "there is no such response to cancel", param="response_id")
        self._commits.drop_unsent()
        self._output.cancel("client_cancelled")

    def clear_output(self, event: OutputAudioClear) -> None:
        """The client drops what it would play; a response that still runs is cancelled."""
        response = self._state.response
        if response is None or event.response_id not in (None, response.id):
            latest = self._state.ledger.latest()
            self._output.clear_playback(event.response_id or (None if latest is None else latest.response_id))
            return
        self._output.clear_playback(response.id)
        self._output.cancel("output_audio_buffer_clear")

    def clear_input(self) -> None:
        self._drop_input(fails_response=True)
        self._state.emit(events.InputCleared())

    def barge_in(self) -> None:
        """Everything goes: input, running response, speech that is still played. The epoch rises in any case."""
        self._drop_input(fails_response=False)
        if not self._output.interrupt("barge_in"):
            self._output.start_epoch()
            self._state.emit(events.InputCleared())

    def _drop_input(self, *, fails_response: bool) -> None:
        self._commits.clear()
        self._inputs.clear(fails_response=fails_response)
