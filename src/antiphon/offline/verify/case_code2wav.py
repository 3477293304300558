"""Replays code2wav: encoder, estimator, solver, flow, vocoder and streams."""

import re

import torch
from torch import Tensor
from torch.nn.functional import pad

from antiphon.audio.voice_mel import voice_mel
from antiphon.audio.wav import to_pcm16
from antiphon.models.code2wav.cfm import PrependAttend, SolverCache, time_grid
from antiphon.models.code2wav.code2wav import StreamState
from antiphon.models.code2wav.dit import FullAttend
from antiphon.models.code2wav.rel_position import distance_features
from antiphon.offline.verify import case_voice
from antiphon.offline.verify.checks import CaseChecks
from antiphon.offline.verify.context import VerifyContext
from antiphon.offline.verify.golden import audio_signal
from antiphon.offline.verify.recorded_voice import PROMPT, code2wav_of, doubled, joined, recorded_vocoder

META = "07_code2wav/meta.json"


def replay_prompt(context: VerifyContext, checks: CaseChecks) -> None:
    """The stand-ins are inputs of all other files; the mel is that of a recorded signal."""
    mel, codes = checks.tensor("prompt_mel"), checks.tensor("prompt_tokens")
    checks.tensor("spk_emb")
    checks.tensor("rand_noise")
    checks.equal("two mel frames a code", mel.shape[1], 2 * codes.shape[1])
    spec = context.golden.inputs["audio"]["07_code2wav/prompt_mel"]
    signal = audio_signal(spec["samples"], spec["seed"], spec["sample_rate"])
    checks.close("prompt_mel", voice_mel(signal)[: mel.shape[1]])


def replay_encoder(context: VerifyContext, checks: CaseChecks) -> None:
    flow, device = code2wav_of(context).flow, context.device
    encoder = flow.encoder
    embedded = flow.embed(checks.tensor("tokens").to(device))
    checks.close("embedded", embedded)
    after_embed = encoder.embed(embedded)
    checks.close("after_embed", after_embed)
    cache = encoder.empty_cache()
    padded = pad(after_embed, (0, 0, 0, encoder.config.lookahead))
    checks.close("after_lookahead", encoder.pre_lookahead_layer(padded, cache.lookahead)[0])
    num_tokens = embedded.shape[1]
    checks.close("pos_emb", distance_features(num_tokens, num_tokens, encoder.config.output_size, device))
    out, _ = encoder(embedded, cache, is_last=True)
    checks.close("encoder_out", out)
    checks.close("mu", flow.encoder_proj(out))
    checks.close("spk_affine", flow.speaker(context.golden.tensor(PROMPT, "spk_emb").to(device)))

    meta = context.golden.json(META)
    stream, start, chunk = checks.tensor("stream_tokens").to(device), 0, 0
    while f"encoder_chunk{chunk}" in meta:
        plan = meta[f"encoder_chunk{chunk}"]
        part = stream[:, start : start + plan["tokens"]]
        out, cache = encoder(flow.embed(part), cache, is_last=plan["last"])
        name, att = f"chunk{chunk}", doubled(cache)
        checks.close(f"{name}.out", out)
        checks.close(f"{name}.cnn_cache", torch.cat((cache.lookahead, cache.upsample), dim=2))
        checks.equal(f"{name} cache shape", list(att.shape), plan["att_cache"])
        tail = checks.golden.shape(checks.file, f"{name}.att_cache_tail")[3]
        checks.close(f"{name}.att_cache_tail", att[:, :, :, -tail:])
        start, chunk = start + plan["tokens"] - encoder.config.lookahead, chunk + 1


def replay_estimator(context: VerifyContext, checks: CaseChecks) -> None:
    dit, device = code2wav_of(context).flow.decoder.estimator, context.device
    x, mu, cond, speaker, t = (checks.tensor(name).to(device) for name in ("x", "mu", "cond", "spks", "t"))
    checks.close("t_emb", dit.t_embedder(t))
    modulation, conv = dit.modulation(t), dit.empty_conv_past(x.shape[0])
    checks.close("out", dit(x, mu, speaker, cond, modulation, FullAttend(), conv)[0])
    mask = checks.tensor("mask2").to(device)[:, 0]
    checks.close("out_mask2", dit(x, mu, speaker, cond, modulation, FullAttend(mask), conv)[0])

    config, rows = dit.config, x.shape[0]
    keys = values = x.new_empty(config.depth, rows, config.num_heads, 0, config.head_dim)
    chunk, start = 1, 0
    while checks.has(f"chunk{chunk}.out"):
        frames = checks.golden.shape(checks.file, f"chunk{chunk}.out")[2]
        part = slice(start, start + frames)
        room = keys.new_empty(*keys.shape[:3], frames, config.head_dim)
        keys, values = torch.cat((room, keys), dim=3), torch.cat((room, values), dim=3)
        out, conv = dit(
            x[:, :, part], mu[:, :, part], speaker, cond[:, :, part], modulation, PrependAttend(keys, values), conv
        )
        checks.close(f"chunk{chunk}.out", out)
        checks.close(f"chunk{chunk}.cnn", conv)
        checks.close(f"chunk{chunk}.att", torch.cat((keys, values), dim=-1))
        start, chunk = start + frames, chunk + 1


def replay_cfm(context: VerifyContext, checks: CaseChecks) -> None:
    flow, device = code2wav_of(context).flow.decoder, context.device
    noise = recorded_vocoder(context).noise
    mu, cond, speaker = (checks.tensor(name).to(device) for name in ("mu", "cond", "spks"))
    num_steps = checks.golden.shape(checks.file, "t_span")[0] - 1
    checks.close("t_span", time_grid(num_steps))
    checks.close("out", flow.solve(mu, speaker, cond, noise, num_steps))
    for name in checks.names():
        if other := re.fullmatch(r"out_(\d+)steps", name):
            checks.close(name, flow.solve(mu, speaker, cond, noise, int(other[1])))

    meta = context.golden.json(META)
    mu, cond = checks.tensor("stream_mu").to(device), checks.tensor("stream_cond").to(device)
    cache, chunk = flow.empty_cache(num_steps), 0
    while f"cfm_chunk{chunk}" in meta:
        plan = meta[f"cfm_chunk{chunk}"]
        start, end = plan["frames"]
        checks.equal(f"chunk{chunk} noise", [len(cache), len(cache) + end - start], plan["noise_columns"])
        out, cache = flow.solve_chunk(mu[:, :, start:end], speaker, cond[:, :, start:end], noise, cache)
        checks.close(f"chunk{chunk}.out", out)
        # Recorded from buffers of a fixed number of steps, so the first dimension is not compared.
        checks.equal(f"chunk{chunk} cache shape", list(joined(cache, 0).shape), plan["att_cache"][1:])
        _compare_steps(checks, f"chunk{chunk}.", cache, conv="cnn", attention="att")
        chunk += 1


def _compare_steps(checks: CaseChecks, prefix: str, cache: SolverCache, *, conv: str, attention: str) -> None:
    for name in checks.names():
        if found := re.fullmatch(re.escape(prefix) + rf"({conv}|{attention})_step(\d+)", name):
            step = int(found[2])
            checks.close(name, cache.conv[step] if found[1] == conv else joined(cache, step))


def replay_flow_offline(context: VerifyContext, checks: CaseChecks) -> None:
    vocoder = recorded_vocoder(context)
    codes = checks.tensor("tokens").to(context.device)
    flow = vocoder.code2wav.flow
    checks.close("mel", flow.synthesise(codes, vocoder.voice, vocoder.noise, vocoder.num_steps))


def replay_hift(context: VerifyContext, checks: CaseChecks) -> None:
    hift, device = code2wav_of(context).hift, context.device
    mel, noise = checks.tensor("mel").to(device), checks.tensor("sine_noise").to(device)
    # Drawn by the reference, without effect: phases are deterministic.
    checks.tensor("rand_ini")
    checks.equal("initial phase", context.golden.json(META)["rand_ini_changes_source"], False)
    f0 = hift.f0_predictor(mel)
    checks.close("f0", f0)
    checks.close("uv_frames", (f0 > 10).float()[..., None])
    for name, drawn in (("zero_noise", None), ("with_noise", noise)):
        wav, source = hift(mel, drawn)
        checks.close(f"source_{name}", source.transpose(1, 2))
        checks.close(f"wav_{name}", wav)
    wav, source = hift(mel, None, checks.tensor("cache_source").to(device))
    checks.close("wav_with_cache_source", wav)
    checks.close("source_after_cache", source)
    checks.close("decode_wav", hift.decode(mel, checks.tensor("decode_source").to(device)))


def replay_base_cache(context: VerifyContext, checks: CaseChecks) -> None:
    state = recorded_vocoder(context).template.flow
    checks.close("conformer_cnn_cache", torch.cat((state.encoder.lookahead, state.encoder.upsample), dim=2))
    checks.close("conformer_att_cache", doubled(state.encoder))
    _compare_steps(checks, "", state.solver, conv="estimator_cnn_cache", attention="estimator_att_cache")


def replay_stream(context: VerifyContext, checks: CaseChecks) -> None:
    """Every turn opens the template anew; mel and samples are compared chunk by chunk."""
    vocoder = recorded_vocoder(context)
    stage, template = vocoder.code2wav, vocoder.template
    states: dict[str, StreamState] = {}
    for plan in context.golden.json(META)["stream"]:
        turn, chunk = plan["turn"], plan["chunk"]
        state = template.open() if chunk == 0 else states[turn]
        start, end = plan["codes"]
        codes = checks.tensor(f"{turn}.codes")[None, start:end].to(context.device)
        is_last = plan["last"]
        mel, _ = stage.flow.chunk(codes, template.speaker, state.flow, vocoder.noise, is_last=is_last)
        wav, states[turn] = stage.chunk(codes, template, state, vocoder.noise, vocoder.source_noise, is_last=is_last)
        lengths = (mel.shape[2], wav.shape[1], len(states[turn].flow.solver), len(states[turn].flow.encoder))
        recorded = tuple(plan[key] for key in ("mel_frames", "samples", "est_att_len", "conf_att_len"))
        checks.equal(f"{turn}.{chunk} lengths", lengths, recorded)
        checks.close(f"{turn}.mel.{chunk}", mel)
        _compare_wav(checks, f"{turn}.wav.{chunk}", wav)
        if checks.has(f"{turn}.pcm16.{chunk}"):
            checks.close(f"{turn}.pcm16.{chunk}", to_pcm16(wav[0].cpu().numpy()))


def _compare_wav(checks: CaseChecks, name: str, wav: Tensor) -> None:
    """Compare samples that were recorded whole or, when long, only at both ends."""
    if checks.has(name):
        checks.close(name, wav)
    for other in checks.names():
        if found := re.fullmatch(re.escape(name) + r"[._]first(\d+)_last(\d+)", other):
            checks.close(other, torch.cat((wav[:, : int(found[1])], wav[:, -int(found[2]) :]), dim=1))


def replay_offline_call(context: VerifyContext, checks: CaseChecks) -> None:
    wav = recorded_vocoder(context).speak(checks.tensor("codes")[0].tolist())[None]
    checks.equal("samples", wav.shape[1], int(checks.tensor("wav_samples")))
    _compare_wav(checks, "wav", wav)


def replay_meta(context: VerifyContext, checks: CaseChecks) -> None:
    """Shapes of the caches that a voice starts from; the plans of chunks are the other files' inputs."""
    meta = context.golden.json(META)
    template = recorded_vocoder(context).template
    encoder, solver, hift = template.flow.encoder, template.flow.solver, template.hift
    shapes, conv = meta["base_cache_shapes"], torch.cat((encoder.lookahead, encoder.upsample), dim=2)
    checks.equal("conformer_cnn", list(conv.shape), shapes["conformer_cnn_cache"])
    checks.equal("conformer_att", list(doubled(encoder).shape), shapes["conformer_att_cache"])
    # Both were read from buffers of a fixed number of steps.
    checks.equal("estimator_cnn", list(solver.conv.shape[1:]), shapes["estimator_cnn_cache"][1:])
    checks.equal("estimator_att", list(joined(solver, 0).shape), shapes["estimator_att_cache"][1:])
    for name, state in (("mel", hift.mel), ("source", hift.source), ("speech", hift.speech)):
        checks.equal(f"hift {name}", list(state.shape), meta["hift_base_cache_shapes"][name])
    planned = re.compile(r"encoder_chunk\d+|cfm_chunk\d+|rand_ini_changes_source|(hift_)?base_cache_shapes|stream")
    for name in meta:
        if not planned.fullmatch(name):
            checks.unknown(name)


REPLAYS = (
    (PROMPT, replay_prompt),
    (META, replay_meta),
    ("07_code2wav/encoder.safetensors", replay_encoder),
    ("07_code2wav/estimator.safetensors", replay_estimator),
    ("07_code2wav/cfm.safetensors", replay_cfm),
    ("07_code2wav/flow_offline.safetensors", replay_flow_offline),
    ("07_code2wav/hift.safetensors", replay_hift),
    ("07_code2wav/stream_base_cache.safetensors", replay_base_cache),
    ("07_code2wav/stream.safetensors", replay_stream),
    ("07_code2wav/offline_call.safetensors", replay_offline_call),
    *case_voice.REPLAYS,
)
