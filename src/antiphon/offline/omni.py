"""The offline interface: a loaded model that answers prompts in this process, many at once."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal, overload

import torch
from tqdm import tqdm

from antiphon.config.deploy import DeployConfig
from antiphon.core.errors import ConfigError, PromptError, SamplingError
from antiphon.core.handoff import Handoff
from antiphon.core.sampling import STAGE_NAMES, SamplingParams
from antiphon.offline.answer_outputs import outputs_of
from antiphon.offline.backends import Backend, EagerBackend, EngineBackend, ReportCodes
from antiphon.offline.choices import parse_deploy, parse_device, parse_dtype, parse_handoff
from antiphon.offline.media_limits import check_media_limits
from antiphon.offline.outputs import OmniOutput
from antiphon.offline.prompt_input import ParsedPrompt, PromptInput, parse_prompt
from antiphon.pipeline.build import LoadFormat, LoadProgress, build_omni_model
from antiphon.pipeline.engine_settings import speech_extra, thread_problems
from antiphon.pipeline.events import ChatEvent
from antiphon.pipeline.local_engine import LocalEngine
from antiphon.pipeline.omni_engine import OmniEngine
from antiphon.pipeline.omni_model import OmniModel
from antiphon.pipeline.process_engine import ProcessEngine
from antiphon.pipeline.request import GenerationRequest
from antiphon.pipeline.voice_book import VoiceBook
from antiphon.prompt.chat_prompt import ChatPrompt, build_chat_prompt
from antiphon.prompt.tokenizer import Tokenizer

StageParams = tuple[SamplingParams, SamplingParams, SamplingParams]
# Lets a prompt that is already markup pass through the prompt builder as it is.
_VERBATIM_TEMPLATE = "{{ messages[0].content }}"


class Omni:
    """A model in this process.

    Parts of a message are joined by nothing (the native rule, as the server does), an empty thought is written in front
    of the answer unless `enable_thinking` says otherwise, and sampling defaults are those of the shipped deploy files.
    A reply is spoken in the voice of `ref_audio`, else in the checkpoint's own. (The reference's `chat()` takes the
    first audio of the conversation, which would let a user's clip decide the voice.)

    Args:
        model: `tiny`, the folder of a checkpoint, or a hub id.
        deploy_config: a shipped layout's name, a file, or a loaded configuration; None: the layout for the device. Its
            sampling defaults, limits, capacities and switches are in force.
        stage_overrides: JSON of stage keys by stage id, stronger than the file.
        engine: `threads` answer many prompts at once on threads of this process; `processes` in the worker processes
            of the layout; `auto` on threads where the layout allows it. `eager` answers one after another, with the
            same tokens and codes for the same seeds: the slow twin for checking.
        device: a torch device; None: what the layout says, the first GPU or the CPU.
        dtype: `float32`, `bfloat16`, `float16` or a torch dtype; None: what the layout says, else the checkpoint's own,
            on the CPU float32.
        load_format: `auto`, or `dummy` for random weights; None: what the layout says.
        with_speech: load Talker and Code2Wav; without them only text can be asked for.
        handoff: how `generate` hands text to the Talker; None: what the layout says, else `span`.
        voice_in_chunks: of `eager`: voice a span in chunks as the engine does, not in one piece as the reference does.
        trust_remote_code: accepted because every caller of the reference passes it. No remote code ever runs.
        progress: called with bytes loaded so far and bytes in all.
        report: called with a line for each thing made ready before the first answer.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        deploy_config: str | Path | DeployConfig | None = None,
        stage_overrides: str = "",
        engine: Literal["auto", "threads", "processes", "eager"] = "auto",
        device: str | torch.device | None = None,
        dtype: str | torch.dtype | None = None,
        load_format: LoadFormat | None = None,
        with_speech: bool = True,
        handoff: Handoff | Literal["span", "stream"] | None = None,
        voice_in_chunks: bool = False,
        trust_remote_code: bool = True,  # noqa: ARG002 - see above
        progress: LoadProgress | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:
        if engine not in ("auto", "threads", "processes", "eager"):
            raise ConfigError(f"engine is {engine!r}; known: auto, threads, processes, eager")
        place = parse_device(device)
        config = parse_deploy(deploy_config, place, stage_overrides)
        self.config = config
        switch = config.optimizations.hand_off
        self.handoff = parse_handoff(handoff or ("span" if switch == "auto" else switch))
        self._stream_handoff = parse_handoff("stream" if switch == "auto" else switch)
        thinker = config.stages[0]
        in_processes = engine == "processes" or (engine == "auto" and bool(thread_problems(config)))
        chosen_dtype = parse_dtype(thinker.dtype if dtype in (None, "auto") else dtype)
        chosen_format: LoadFormat = load_format or ("dummy" if thinker.load_format == "dummy" else "auto")
        loaded = build_omni_model(
            model,
            device=torch.device("cuda", thinker.devices[0]) if device is None and place.type == "cuda" else place,
            dtype=chosen_dtype,
            load_format=chosen_format,
            with_speech=with_speech,
            only=() if in_processes else STAGE_NAMES,
            progress=progress,
        )
        self._model: OmniModel | None = loaded
        self._backend: Backend
        if engine == "eager":
            extra = speech_extra(config)
            voices = VoiceBook(loaded, default=extra.prompt_wav, max_seconds=extra.ref_audio_max_seconds)
            self._backend = EagerBackend(
                loaded, voices=voices, num_steps=config.optimizations.cfm_steps, voice_in_chunks=voice_in_chunks
            )
        else:
            started: OmniEngine = (
                ProcessEngine(loaded, config, source=str(model), dtype=chosen_dtype, load_format=chosen_format)
                if in_processes
                else LocalEngine(loaded, config)
            )
            started.start(report or _say_nothing)
            self._backend = EngineBackend(started, max_in_flight=2 * thinker.max_num_seqs)

    @overload
    def generate(
        self,
        prompts: PromptInput | Sequence[PromptInput],
        sampling_params_list: Sequence[SamplingParams] | None = None,
        use_tqdm: bool | Callable[..., "tqdm[None]"] = True,
        py_generator: Literal[False] = False,
    ) -> list[OmniOutput]: ...

    @overload
    def generate(
        self,
        prompts: PromptInput | Sequence[PromptInput],
        sampling_params_list: Sequence[SamplingParams] | None = None,
        use_tqdm: bool | Callable[..., "tqdm[None]"] = True,
        *,
        py_generator: Literal[True],
    ) -> Iterator[OmniOutput]: ...

    def generate(
        self,
        prompts: PromptInput | Sequence[PromptInput],
        sampling_params_list: Sequence[SamplingParams] | None = None,
        use_tqdm: bool | Callable[..., "tqdm[None]"] = True,
        py_generator: bool = False,
    ) -> list[OmniOutput] | Iterator[OmniOutput]:
        """Answer *prompts*: one output for the text and one for the speech of each, as far as asked for.

        Prompts are answered together; outputs come in the order in which they are finished, and an id begins with the
        number of its prompt.

        Args:
            prompts: one prompt or several; see `offline.prompt_input`.
            sampling_params_list: None for the layout's, else exactly one entry for each of the three stages.
            use_tqdm: show a progress bar on stderr.
            py_generator: return outputs as they are made; closing the iterator drops the rest.

        Raises:
            AntiphonError: about the first prompt that cannot be answered; all are checked before one is answered. If a
                stage gives one up later, the rest are dropped.
        """
        several = [prompts] if isinstance(prompts, (str, dict)) else list(prompts)
        if not several:
            raise PromptError("no prompts were given")
        requests = [
            self._prepare(prompt, sampling_params_list, self.handoff, number) for number, prompt in enumerate(several)
        ]
        outputs = self._outputs(requests, use_tqdm)
        return outputs if py_generator else list(outputs)

    def stream(
        self,
        prompt: PromptInput,
        sampling_params_list: Sequence[SamplingParams] | None = None,
        *,
        handoff: Handoff | Literal["span", "stream"] | None = None,
        report_codes: ReportCodes | None = None,
    ) -> Iterator[ChatEvent]:
        """Answer one prompt event by event: text as it comes, speech in chunks, then `Finished`.

        *handoff* None is what the layout says, else `stream`. *report_codes* hears how many codec ids were voiced
        (of the eager generator: drawn) so far. Close the iterator to abort.
        """
        chosen = self._stream_handoff if handoff is None else parse_handoff(handoff)
        _, request = self._prepare(prompt, sampling_params_list, chosen, 0)
        return self._backend.stream(request, report_codes)

    def abort(self, request_ids: str | Sequence[str]) -> None:
        """End requests of a running `generate` by their ids; it then raises."""
        for request_id in [request_ids] if isinstance(request_ids, str) else request_ids:
            self._backend.abort(request_id)

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer, to read `token_ids` and `prompt_token_ids`."""
        return self._open().tokenizer

    def close(self) -> None:
        """End all threads and let go of the model's memory; afterwards nothing can be generated."""
        if self._model is not None:
            self._model = None
            self._backend.close()

    def __enter__(self) -> "Omni":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _open(self) -> OmniModel:
        if self._model is None:
            raise ConfigError("this Omni is closed; make a new one")
        return self._model

    def _prepare(
        self, prompt: PromptInput, sampling: Sequence[SamplingParams] | None, handoff: Handoff, number: int
    ) -> tuple[ParsedPrompt, GenerationRequest]:
        model = self._open()
        stages = self._stage_params(sampling)
        check_media_limits(prompt, self.config.stages[0].limit_mm_per_prompt)
        parsed = parse_prompt(prompt)
        if parsed.wants_audio and model.talker is None:
            raise ConfigError(
                "this model was loaded without speech; ask for modalities ['text'] or load it with speech"
            )
        request = GenerationRequest(
            request_id=f"{number}_{uuid.uuid4().hex}",
            prompt=_build_prompt(model, parsed),
            sampling=stages,
            voice=self._backend.voices.prepare(parsed.voice) if parsed.wants_audio else None,
            handoff=handoff,
        )
        self._backend.check(request)
        return parsed, request

    def _stage_params(self, sampling: Sequence[SamplingParams] | None) -> StageParams:
        defaults = [stage.default_sampling_params for stage in self.config.stages]
        given = defaults if sampling is None else sampling
        stages = [given] if isinstance(given, SamplingParams) else list(given)
        if len(stages) != 3:
            raise SamplingError(
                f"sampling_params_list has {len(stages)} entries; it needs exactly 3: thinker, talker, code2wav"
            )
        for entry in stages:
            if not isinstance(entry, SamplingParams):
                raise SamplingError(
                    f"sampling_params_list holds {type(entry).__name__}; entries must be SamplingParams"
                )
        return (stages[0], stages[1], stages[2])

    def _outputs(
        self, prepared: Sequence[tuple[ParsedPrompt, GenerationRequest]], use_tqdm: bool | Callable[..., "tqdm[None]"]
    ) -> Iterator[OmniOutput]:
        parsed_of = {request.request_id: parsed for parsed, request in prepared}
        make_bar = use_tqdm if callable(use_tqdm) else tqdm
        answers = self._backend.answer_all([request for _, request in prepared])
        with (
            closing(answers),
            make_bar(total=len(prepared), desc="Prompts", unit="prompt", disable=use_tqdm is False) as bar,
        ):
            for request, events in answers:
                yield from outputs_of(parsed_of[request.request_id], request, events)
                bar.update(1)


def _build_prompt(model: OmniModel, parsed: ParsedPrompt) -> ChatPrompt:
    speaks = parsed.wants_audio if parsed.use_tts_template is None else parsed.use_tts_template
    return build_chat_prompt(
        parsed.messages,
        model.tokenizer,
        model.image_config,
        join="",
        max_slices=parsed.max_slices,
        use_image_id=parsed.use_image_id,
        use_tts_template=speaks,
        enable_thinking=bool(parsed.enable_thinking),
        template=_VERBATIM_TEMPLATE if parsed.is_templated else None,
        protect_text=not parsed.is_templated,
        native_marks=True,
        pool_step=model.config.audio.pool_step,
    )


def _say_nothing(line: str) -> None:
    """Report to nobody."""
