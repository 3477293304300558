"""What each stage is sent for one request."""

from antiphon.pipeline.device_loop import CODE2WAV, TALKER, THINKER
from antiphon.pipeline.intake import PromptInputs
from antiphon.pipeline.messages import Command, TalkerRequest, ThinkerRequest, VoiceRequest
from antiphon.pipeline.request import GenerationRequest, seed_of
from antiphon.pipeline.voice_book import PreparedVoice


def commands_for(
    request: GenerationRequest, inputs: PromptInputs, *, epoch: int, deadline_s: float
) -> list[tuple[str, Command]]:
    """The stages that a request needs, each with its command, in the order in which they must hear of it.

    The stages behind the Thinker come first: they must know the request before anything comes for them.
    """
    commands: list[tuple[str, Command]] = []
    if request.voice is not None:
        commands.append((CODE2WAV, _voice(request, request.voice, epoch, deadline_s)))
        commands.append((TALKER, _talker(request, epoch, deadline_s)))
    thinker = ThinkerRequest(
        request_id=request.request_id,
        epoch=epoch,
        ids=inputs.ids,
        images=inputs.images,
        audio=inputs.audio,
        sampling=request.sampling[0],
        seed=seed_of(request.sampling[0]),
        handoff=request.spoken_by,
        given=request.given,
        deadline_s=deadline_s,
    )
    return [*commands, (THINKER, thinker)]


def _talker(request: GenerationRequest, epoch: int, deadline_s: float) -> TalkerRequest:
    return TalkerRequest(
        request_id=request.request_id,
        epoch=epoch,
        handoff=request.handoff,
        sampling=request.sampling[1],
        seed=seed_of(request.sampling[1]),
        deadline_s=deadline_s,
    )


def _voice(request: GenerationRequest, voice: PreparedVoice, epoch: int, deadline_s: float) -> VoiceRequest:
    return VoiceRequest(
        request_id=request.request_id,
        epoch=epoch,
        voice_key=voice.key,
        voice_codes=voice.features.codes,
        voice_xvector=voice.features.xvector,
        voice_mel=voice.features.mel,
        seed=seed_of(request.sampling[2]),
        deadline_s=deadline_s,
    )
