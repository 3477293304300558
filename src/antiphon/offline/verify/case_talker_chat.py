"""Replays the recorded chat conditions: prompt, Thinker rows of prompt and answer, spoken span, Talker condition."""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import torch
from torch import Tensor

from antiphon.audio.mel import offline_mels
from antiphon.engine.speech_span import speech_span
from antiphon.engine.talker_sampling import TalkerSampling
from antiphon.offline.verify.case_talker_inputs import META, loaded_talker
from antiphon.offline.verify.checks import CaseChecks
from antiphon.offline.verify.context import VerifyContext
from antiphon.offline.verify.golden import audio_signal
from antiphon.pipeline.eager.merge import merge_media
from antiphon.pipeline.eager.talker_condition import chat_condition
from antiphon.pipeline.eager.thinker import ThinkerSequence
from antiphon.prompt.chat_prompt import ChatPrompt, build_chat_prompt
from antiphon.prompt.messages import AudioPart, Message, TextPart


@dataclass(frozen=True)
class ChatRun:
    """One recorded conversation: our prompt, the recorded ids, and the Thinker's rows of all of them but the last."""

    prompt_ids: list[int]
    ids: list[int]
    hidden: Tensor  # [len(ids) − 1, hidden]
    span: tuple[int, int]
    condition: Tensor | None  # [n, H]


def chat_run(context: VerifyContext, case: str) -> ChatRun:
    return context.once(f"talker chat {case}", lambda: _run(context, context.golden.json(META)["chat"][case]))


def _run(context: VerifyContext, recorded: dict[str, Any]) -> ChatRun:
    model, special = context.model, context.model.tokenizer.special
    messages = [_message(message) for message in recorded["msgs"]]
    prompt = build_chat_prompt(
        messages,
        model.tokenizer,
        model.image_config,
        # Teacher forcing: the answer is the last message, and nothing is generated behind it.
        add_generation_prompt=messages[-1].role != "assistant",
        protect_text=False,
        pool_step=model.config.audio.pool_step,
    )
    ids = list(recorded["full_sequence"])
    sequence = ThinkerSequence(model.thinker)
    rows = [sequence.feed(_embed(context, prompt))]
    answer = ids[len(prompt.ids) : -1]
    if answer:
        rows.append(sequence.feed_ids(answer))
    hidden = torch.cat(rows)
    stop_ids = (special.im_end, special.endoftext)
    names = {"tts_bos_id": special.tts_bos, "tts_eos_id": special.tts_eos}
    span = speech_span(ids, **names, num_hidden=len(hidden), stop_ids=stop_ids)
    condition = chat_condition(loaded_talker(context), ids, hidden, **names, stop_ids=stop_ids)
    return ChatRun(prompt.ids, ids, hidden, span, condition)


def _message(recorded: dict[str, Any]) -> Message:
    content = recorded["content"]
    parts = [content] if isinstance(content, str) else content
    return Message(
        recorded["role"],
        tuple(TextPart(part) if isinstance(part, str) else AudioPart(audio_signal(part[1], part[2])) for part in parts),
    )


def _embed(context: VerifyContext, prompt: ChatPrompt) -> Tensor:
    thinker = context.model.thinker
    embeds = thinker.embed(torch.tensor(prompt.ids, device=context.device))
    if not prompt.clips:
        return embeds
    mels = [torch.from_numpy(mel).to(context.device) for clip in prompt.clips for mel in offline_mels(clip)]
    return merge_media(embeds, prompt.audio_bounds, thinker.encode_audio(mels))


def replay_chat(context: VerifyContext, checks: CaseChecks) -> None:
    run = chat_run(context, PurePosixPath(checks.file).stem)
    for name in checks.names():
        if name == "full_sequence":
            checks.close(name, torch.tensor(run.ids))
        elif name == "hidden_from_bos":
            checks.close(name, run.hidden[run.span[0] - 1 :])
        elif name == "inputs_embeds" and run.condition is not None:
            checks.close(name, run.condition)
        else:
            checks.unknown(name)


def replay_meta(context: VerifyContext, checks: CaseChecks, recorded: dict[str, Any]) -> None:
    tokenizer = context.model.tokenizer
    stops = (tokenizer.special.tts_eos, tokenizer.special.im_end, tokenizer.special.endoftext)
    for case, values in recorded.items():
        run = chat_run(context, case)
        checks.equal(f"{case}: prompt ids", run.prompt_ids, run.ids[: len(run.prompt_ids)])
        checks.equal(f"{case}: ids", len(run.ids), values["full_len"])
        checks.equal(f"{case}: hidden rows", len(run.hidden), values["hidden_len"])
        start, end = values["tts_bound"]
        # Without tts_eos the reference fails; we speak what has a hidden row.
        checks.equal(f"{case}: spoken span", run.span, (start, values["hidden_len"] if end is None else end))
        answer = run.ids[len(run.prompt_ids) :]
        while answer and answer[-1] in stops:
            answer.pop()
        checks.equal(f"{case}: answer", tokenizer.decode(answer, skip_special=False), values["answer"])
        if "default_sampling" in values:
            ours, theirs = TalkerSampling(), values["default_sampling"]
            checks.equal(
                f"{case}: sampling",
                (ours.top_p, ours.top_k, ours.repetition_penalty, ours.temperature, ours.penalty_window),
                tuple(theirs[key] for key in ("top_p", "top_k", "repetition_penalty", "temperature", "win_size")),
            )


REPLAYS = (
    ("06_talker/chat_*.safetensors", replay_chat),
    ("06_talker/teacher_forced.safetensors", replay_chat),
)
