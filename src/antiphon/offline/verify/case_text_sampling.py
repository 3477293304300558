"""Replays the recorded text decisions: the duplex rule alone, its filter, and the simplex text in chunks."""

import re
from typing import Any

import torch
from torch import Tensor

from antiphon.engine.duplex_decision import Decision, DecisionIds, DecisionSampling, decide
from antiphon.engine.logits_filters import keep_nucleus
from antiphon.engine.noise import Argmax, InverseCdf
from antiphon.engine.simplex_sampling import SimplexSampling
from antiphon.offline.verify.checks import CaseChecks
from antiphon.offline.verify.context import VerifyContext
from antiphon.pipeline.eager.text_chunks import TextChunk, TextChunks
from antiphon.pipeline.eager.thinker import ThinkerSequence
from antiphon.prompt.duplex_markup import duplex_forbidden_ids, simplex_forbidden_ids

DECODE_JSON, DECODE_TENSORS = "08_duplex_decode/decode.json", "08_duplex_decode/decode.safetensors"
FILTER_JSON, FILTER_TENSORS = "08_duplex_decode/filter.json", "08_duplex_decode/filter.safetensors"
CHUNK_JSON, CHUNK_TENSORS = "10_chunk_generate/chunk_generate.json", "10_chunk_generate/chunk_generate.safetensors"
UNIFORMS_PER_CASE = 4  # "case i uses u[4i], u[4i+1]", as the manifest says


def decision_sampling(kwargs: dict[str, Any]) -> DecisionSampling:
    """Recorded decode arguments as our parameters."""
    return DecisionSampling(
        is_greedy=kwargs["mode"] == "greedy",
        temperature=kwargs["temperature"],
        top_k=kwargs["top_k"],
        top_p=kwargs["top_p"],
        listen_prob_scale=kwargs["listen_prob_scale"],
        listen_top_k=kwargs["listen_top_k"],
        repetition_penalty=kwargs["text_repetition_penalty"],
        penalty_window=kwargs["text_repetition_window_size"],
        length_penalty=kwargs["length_penalty"],
    )


def _decision(context: VerifyContext, case: dict[str, Any]) -> tuple[Decision, int]:
    """The decision of one recorded case, and how many draws it took."""
    special = context.model.tokenizer.special
    ids = DecisionIds(
        chunk_eos=special.chunk_eos,
        turn_eos=special.turn_eos,
        tokenizer_eos=special.im_end,
        forbidden=duplex_forbidden_ids(context.model.tokenizer),
    )
    start = UNIFORMS_PER_CASE * case["i"]
    noise = InverseCdf(context.golden.tensor(DECODE_TENSORS, "u")[start : start + UNIFORMS_PER_CASE].tolist())
    logits = context.golden.tensor(DECODE_TENSORS, f"logits.{case['i']}").to(context.device)
    decision = decide(logits, case["history"], decision_sampling(case["kwargs"]), ids, noise)
    return decision, noise.num_draws


def replay_decisions(context: VerifyContext, checks: CaseChecks) -> None:
    checks.tensor("u")
    for case in context.golden.json(DECODE_JSON)["cases"]:
        checks.tensor(f"logits.{case['i']}")
        checks.equal(f"case {case['i']} chosen", _decision(context, case)[0].token_id, case["chosen"])


def replay_decision_records(context: VerifyContext, checks: CaseChecks) -> None:
    recorded = context.golden.json(DECODE_JSON)
    special = context.model.tokenizer.special
    forbidden = duplex_forbidden_ids(context.model.tokenizer)
    checks.equal("forbidden ids", sorted(forbidden), sorted(recorded["forbidden_token_ids"]))
    checks.equal("listen id", special.im_end, recorded["listen_id_used"])
    checks.equal("chunk_eos id", special.chunk_eos, recorded["chunk_eos_id"])
    checks.equal("turn_eos id", special.turn_eos, recorded["turn_eos_id"])
    for case in recorded["cases"]:
        decision, num_draws = _decision(context, case)
        history = [*case["history"], *([decision.token_id] if decision.is_recorded else [])]
        tail = case["generated_tokens_after"]
        checks.equal(f"case {case['i']} draws", num_draws, case["draws_used"])
        checks.equal(f"case {case['i']} history length", len(history), case["n_after"])
        checks.equal(f"case {case['i']} history", history[len(history) - len(tail) :], tail)


def replay_filter(context: VerifyContext, checks: CaseChecks) -> None:
    for case in context.golden.json(FILTER_JSON):
        logits = context.golden.tensor(FILTER_TENSORS, f"logits.{case['i']}").to(context.device)
        if checks.file == FILTER_TENSORS:
            checks.tensor(f"logits.{case['i']}")
        scores = keep_nucleus(logits, case["top_k"], case["top_p"])
        checks.equal(f"case {case['i']} kept", torch.nonzero(torch.isfinite(scores))[:, 0].tolist(), case["kept"])


def replay_static_bias(context: VerifyContext, checks: CaseChecks) -> None:
    """An input of the duplex sessions: one value for every id."""
    bias = checks.tensor("static_bias")
    checks.equal("length", bias.shape[0], context.model.config.vocab_size)


def _chunk_run(context: VerifyContext, run: dict[str, Any]) -> tuple[list[TextChunk], list[int]]:
    """The chunks of one recorded run, and all ids drawn."""
    kwargs = dict(run["kwargs"])
    forbidden = simplex_forbidden_ids(context.model.tokenizer) if kwargs.pop("suppress_forbidden_tokens", True) else ()
    is_greedy = not kwargs.pop("do_sample")
    prompt = context.golden.tensor(CHUNK_TENSORS, "prompt_ids")[0].tolist()

    def generate() -> tuple[list[TextChunk], list[int]]:
        sequence = ThinkerSequence(context.model.thinker)
        last_hidden = sequence.feed_ids(prompt)[-1]
        noise = Argmax() if is_greedy else InverseCdf(context.golden.tensor(CHUNK_TENSORS, "u").tolist())
        answer = TextChunks(
            sequence,
            last_hidden,
            sampling=SimplexSampling(is_greedy=is_greedy, **kwargs),
            noise=noise,
            stop_ids=_stop_ids(context),
            forbidden_ids=forbidden,
            max_new_tokens=sum(len(chunk["ids"]) for chunk in run["chunks"]),
        )
        chunks: list[TextChunk] = []
        while len(chunks) < len(run["chunks"]) and not answer.is_finished:
            chunks.append(answer.next_chunk())
        return chunks, answer.ids

    return context.once(f"chunk_generate {run['name']}", generate)


def _stop_ids(context: VerifyContext) -> tuple[int, ...]:
    special = context.model.tokenizer.special
    return (special.tts_eos, special.im_end, special.slash_s)


def replay_chunk_rows(context: VerifyContext, checks: CaseChecks) -> None:
    checks.tensor("u")
    checks.tensor("prompt_ids")
    for run in context.golden.json(CHUNK_JSON):
        chunks, _ = _chunk_run(context, run)
        for index in range(len(run["chunks"])):
            rows = chunks[index].hidden if index < len(chunks) else Tensor()
            name = f"{run['name']}.hidden.{index}"
            if checks.has(name):
                checks.close(name, rows)
    for name in checks.names():
        if name not in ("u", "prompt_ids") and not re.fullmatch(r"\w+\.hidden\.\d+", name):
            checks.unknown(name)


def replay_chunk_ids(context: VerifyContext, checks: CaseChecks) -> None:
    for run in context.golden.json(CHUNK_JSON):
        chunks, drawn = _chunk_run(context, run)
        recorded = run["chunks"]
        label = run["name"]
        checks.equal(f"{label}: ids", drawn, [token_id for chunk in recorded for token_id in chunk["ids"]])
        checks.equal(
            f"{label}: rows", [len(chunk.ids) for chunk in chunks], [chunk["hidden_rows"][1] for chunk in recorded]
        )
        checks.equal(
            f"{label}: finished", [chunk.is_final for chunk in chunks], [chunk["finished"] for chunk in recorded]
        )
        checks.equal(f"{label}: forbidden", list(simplex_forbidden_ids(context.model.tokenizer)), run["forbidden_ids"])
        checks.equal(f"{label}: terminators", list(_stop_ids(context)), run["terminators"])


REPLAYS = (
    ("08_duplex/static_bias.safetensors", replay_static_bias),
    (DECODE_TENSORS, replay_decisions),
    (DECODE_JSON, replay_decision_records),
    (FILTER_TENSORS, replay_filter),
    (FILTER_JSON, replay_filter),
    (CHUNK_TENSORS, replay_chunk_rows),
    (CHUNK_JSON, replay_chunk_ids),
)
