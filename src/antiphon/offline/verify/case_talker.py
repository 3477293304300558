"""Replays the recorded Talker: conditions, teacher-forced passes, the sampling steps; the rest is in its neighbours."""

import torch
from torch import Tensor

from antiphon.engine.logits_filters import keep_top_k, keep_top_p
from antiphon.engine.talker_sampling import TalkerSampling, code_probs, penalise_codes
from antiphon.layers.kv_cache import CausalAttend, KVCache
from antiphon.models.talker.talker import Talker
from antiphon.offline.verify import case_talker_chat, case_talker_generate, case_talker_stream
from antiphon.offline.verify.case_talker_inputs import loaded_talker
from antiphon.offline.verify.checks import CaseChecks
from antiphon.offline.verify.context import VerifyContext
from antiphon.pipeline.eager.talker_condition import unit_condition

META = "06_talker/meta.json"


def replay_conditioning(context: VerifyContext, checks: CaseChecks) -> None:
    talker = loaded_talker(context)
    for name in checks.names():
        kind, _, index = name.partition(".")
        if kind == "duplex_cond" and index == "empty":
            checks.close(name, unit_condition(talker, [], []))
        elif kind == "duplex_cond":
            ids, hidden = checks.tensor(f"ids.{index}"), checks.tensor(f"hidden.{index}").to(context.device)
            checks.close(name, unit_condition(talker, ids.tolist(), list(hidden)))
        elif kind == "projected":
            checks.close(name, talker.projector_semantic(checks.tensor(f"hidden.{index}").to(context.device)))
        elif name == "emb_audio_bos":
            checks.close(name, talker.embed_text(torch.tensor([talker.config.audio_bos_id], device=context.device)))
        elif name == "emb_text_eos":
            checks.close(name, talker.embed_text(torch.tensor([talker.config.text_eos_id], device=context.device)))
        elif kind not in ("ids", "hidden"):
            checks.unknown(name)


def replay_teacher_forced_logits(context: VerifyContext, checks: CaseChecks) -> None:
    """The condition and code embeddings in one pass, and token by token on a second cache."""
    talker = loaded_talker(context)
    codes = checks.tensor("codes")[0].to(context.device)
    embeds = torch.cat((checks.tensor("cond")[0].to(context.device), talker.embed_codes(codes)))
    cache = KVCache(talker.config.decoder.num_layers)
    hidden = _forward(talker, embeds, cache, 0)
    keys, values = cache.layer(0)
    logits = talker.logits(hidden)
    top_values, top_ids = logits.topk(checks.tensor("top8_ids").shape[-1])
    rows = checks.tensor("logits_row_index")
    steps = KVCache(talker.config.decoder.num_layers)
    one_by_one = [_forward(talker, row[None], steps, position) for position, row in enumerate(embeds)]
    checks.close("hidden_full", hidden)
    checks.close("hidden_incremental", torch.cat(one_by_one))
    checks.close("logits_rows", logits[rows.to(context.device)])
    checks.close("top8_ids", top_ids)
    checks.close("top8_values", top_values)
    checks.close("k0", keys)
    checks.close("v0", values)


def replay_logits_process(context: VerifyContext, checks: CaseChecks) -> None:
    """The steps from raw scores to probabilities, each with what it leaves."""
    sampling = TalkerSampling()
    cases = sorted({name.rpartition(".")[2] for name in checks.names()}, key=int)
    for case in cases:
        raw = checks.tensor(f"raw.{case}")[0].to(context.device)
        history = checks.tensor(f"hist.{case}")[0].to(context.device)
        recent = history[-sampling.penalty_window :]
        penalised = penalise_codes(raw / sampling.temperature, recent, sampling.repetition_penalty)
        in_top_p = keep_top_p(penalised, sampling.top_p, min_keep=sampling.min_keep)
        in_top_k = keep_top_k(in_top_p, sampling.top_k, min_keep=sampling.min_keep)
        probs = code_probs(raw, history, sampling, with_filters=True)
        kept = _kept_ids(in_top_k)
        checks.close(f"after_temp_penalty.{case}", penalised)
        checks.close(f"kept_after_top_p.{case}", _kept_ids(in_top_p))
        checks.close(f"kept_after_top_k.{case}", kept)
        checks.close(f"kept_values.{case}", in_top_k[kept])
        checks.close(f"probs_kept.{case}", probs[kept])


def replay_meta(context: VerifyContext, checks: CaseChecks) -> None:
    """The bookkeeping of all Talker runs."""
    for section, recorded in context.golden.json(META).items():
        if section == "chat":
            case_talker_chat.replay_meta(context, checks, recorded)
        elif section in ("generate", "generate_chunk"):
            case_talker_generate.replay_meta(context, checks, section, recorded)
        elif section == "streaming_generator":
            case_talker_stream.replay_meta(context, checks, recorded)
        elif section != "scripts":  # inputs of the runs
            checks.unknown(section)


def _forward(talker: Talker, embeds: Tensor, cache: KVCache, start: int) -> Tensor:
    positions = torch.arange(start, start + embeds.shape[0], device=embeds.device)
    hidden: Tensor = talker(embeds, positions, CausalAttend(cache))
    return hidden


def _kept_ids(scores: Tensor) -> Tensor:
    return torch.nonzero(torch.isfinite(scores))[:, 0]


REPLAYS = (
    ("06_talker/conditioning.safetensors", replay_conditioning),
    ("06_talker/teacher_forced_logits.safetensors", replay_teacher_forced_logits),
    ("06_talker/logits_process.safetensors", replay_logits_process),
    ("06_talker/meta.json", replay_meta),
    *case_talker_generate.REPLAYS,
    *case_talker_stream.REPLAYS,
    *case_talker_chat.REPLAYS,
)
