"""`response.create` where every request is answered: one response, or one error (specification section 17.2)."""

import logging
from dataclasses import replace

from antiphon.realtime.commit_flow import CommitFlow
from antiphon.realtime.engine import Reconfigure
from antiphon.realtime.input_flow import InputFlow
from antiphon.realtime.output_flow import OutputFlow
from antiphon.realtime.session_state import SessionState
from antiphon.wire.realtime.client_events import InputAudioCommit, ResponseCreate
from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.openai_response import parse_openai_response

logger = logging.getLogger(__name__)


class RequestFlow:
    """Decides what a requested response answers: committed sound, text that opens the conversation, or silence."""

    def __init__(self, state: SessionState, inputs: InputFlow, commits: CommitFlow, output: OutputFlow) -> None:
        self._state = state
        self._inputs = inputs
        self._commits = commits
        self._output = output

    def create_response(self, event: ResponseCreate) -> None:
        """Raises RealtimeError `response_already_active`, or what is wrong with the request."""
        state = self._state
        request = parse_openai_response(event.response)
        if request.ignored:
            logger.info("session %s: response.create: no effect of %s", state.id, ", ".join(request.ignored))
        if state.response is not None:
            if state.response.was_asked_for:
                raise RealtimeError("response_already_active", "a response that was asked for is generated already")
            state.response.client_metadata.update(request.options.metadata or {})
            return
        if self._inputs.turn.has_speech:
            self._commits.commit(InputAudioCommit())
        if self._commits.answer_retained(request.options):
            return
        if not len(state.chain):
            self._seed(request.instructions)
        self._output.open_response(request.options, was_asked_for=True)
        if not len(state.chain):
            self._output.push_silence()

    def _seed(self, instructions: str | None) -> None:
        """Text reaches this model only before its first unit."""
        state = self._state
        texts = [item.heard for item in state.conversation.unanswered_texts() if item.heard]
        if instructions:
            texts.insert(0, instructions)
        if not texts:
            return
        if state.has_submitted:
            logger.info("session %s: the model has begun to listen; text is kept but cannot reach it", state.id)
            return
        state.settings = replace(state.settings, initial_user_text="\n".join(texts))
        state.commands.append(Reconfigure(state.settings))
