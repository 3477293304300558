"""The items of the conversation: made, shown, deleted and cut by the client (specification section 13)."""

from antiphon.realtime.commit_flow import CommitFlow
from antiphon.realtime.conversation import Item, Role, item_object
from antiphon.realtime.input_flow import InputFlow
from antiphon.realtime.session_state import SessionState
from antiphon.wire.realtime import server_events as events
from antiphon.wire.realtime.client_events import InputAudioCommit, ItemCreate, ItemDelete, ItemRetrieve
from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.items import CallOutputItem, MessageItem, parse_item

_ROOT = "root"


class ItemFlow:
    """Items edit what clients see and what the history says; sound that the model has heard it has heard."""

    def __init__(self, state: SessionState, inputs: InputFlow, commits: CommitFlow) -> None:
        self._state = state
        self._inputs = inputs
        self._commits = commits

    def create(self, event: ItemCreate) -> None:
        item = parse_item(event.item)
        if isinstance(item, CallOutputItem):
            raise _call_output_error(item)
        if item.has_image:
            raise RealtimeError("unsupported", "this model takes images as video_frames of an append only")
        item_id = item.id or self._state.new_item_id()
        self._state.conversation.check_new(item_id)
        self._add(item, item_id, event.previous_item_id)
        if item.audio:
            for part in item.audio:
                self._inputs.append_clip(part.audio, part.format, part.sample_rate_hz, part.transcript)
            self._commits.commit(InputAudioCommit(response_create=False), item_id=item_id, is_announced=True)
            return
        shown = self._state.conversation.get(item_id)
        self._state.emit(events.ItemDone(previous_item_id=shown.previous_id, item=shown.shown))
        if self._state.has_accepted_audio:
            self._warn_without_effect(item_id)

    def _add(self, item: MessageItem, item_id: str, previous_id: str | None) -> None:
        state = self._state
        role = Role(item.role)
        content = [_without_sound(part) for part in item.content]
        shown = item_object(item_id, role, "completed", content)
        added = Item(item_id, role, shown, heard=item.text, is_audio=bool(item.audio))
        if previous_id == _ROOT or (previous_id is not None and previous_id not in state.conversation):
            previous_id = None
        state.conversation.add(added, previous_id)
        state.emit(events.ItemAdded(previous_item_id=added.previous_id, item=shown))
        state.emit(events.ItemCreated(previous_item_id=added.previous_id, item=shown))

    def _warn_without_effect(self, item_id: str) -> None:
        self._state.emit(
            events.SessionWarning(
                session_id=self._state.id,
                code="item_without_effect",
                message="the model has heard sound already; this text stays in the history but cannot reach it",
                details={"item_id": item_id},
            )
        )

    def retrieve(self, event: ItemRetrieve) -> None:
        self._state.emit(events.ItemRetrieved(item=self._state.conversation.get(event.item_id).shown))

    def delete(self, event: ItemDelete) -> None:
        state = self._state
        item = state.conversation.get(event.item_id)
        state.conversation.remove(item.id)
        state.emit(
            events.ItemDeleted(
                item_id=item.id,
                event={
                    "type": "conversation.item.deleted",
                    "session_id": state.id,
                    "item_id": item.id,
                    "history_len": len(state.conversation),
                },
            )
        )


def _without_sound(part: object) -> object:
    """Sound is not shown again: it would be most of the journal."""
    return {key: value for key, value in part.items() if key != "audio"} if isinstance(part, dict) else part


def _call_output_error(item: CallOutputItem) -> RealtimeError:
    code = "invalid_function_call_output"
    if not isinstance(item.call_id, str) or isinstance(item.output, str):
        return RealtimeError(code, "call_id belongs to no call: this model makes none", param="item.call_id")
    return RealtimeError(code, "output must be a string", param="item.output")
