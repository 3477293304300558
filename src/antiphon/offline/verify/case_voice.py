"""Replays the reference voice: the front ends' features, whole voices, and the S3 tokenizer."""

import re

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import pad

from antiphon.audio.fbank import centred_fbank, fbank
from antiphon.audio.mel import Floor, log_mel
from antiphon.audio.sinc_resample import sinc_resample
from antiphon.audio.voice_features import NUM_TOKENIZER_BINS, VoiceFrontEnd
from antiphon.audio.voice_mel import SAMPLE_RATE_HZ as VOCODER_RATE_HZ
from antiphon.audio.voice_mel import voice_mel
from antiphon.models.code2wav.flow import VoicePrompt
from antiphon.models.code2wav.s3_tokenizer import S3Config, S3Tokenizer
from antiphon.offline.verify.checks import CaseChecks
from antiphon.offline.verify.context import VerifyContext
from antiphon.offline.verify.golden import audio_signal, audio_signal_int16
from antiphon.offline.verify.recorded_voice import doubled, joined, recorded_vocoder
from antiphon.pipeline.eager.vocoder import voice_prompt

S3_META = "07_s3_tokenizer/meta.json"
FBANK_RATE_HZ = 16_000
BATCH_CLIP_SAMPLES = (9_000, 20_000)  # of 07_s3_tokenizer's `batch`: as its description says, no file does


def replay_prompt_frontend(context: VerifyContext, checks: CaseChecks) -> None:
    spec = context.golden.inputs["audio"]["07_code2wav/prompt_frontend"]
    signal = audio_signal(spec["samples"], spec["seed"])
    checks.close("audio16", signal)
    checks.close("fbank", fbank(signal, FBANK_RATE_HZ))
    checks.close("fbank_centered", centred_fbank(signal, FBANK_RATE_HZ))
    resampled = sinc_resample(signal, FBANK_RATE_HZ, VOCODER_RATE_HZ)
    checks.close("audio24", resampled)
    checks.close("mel24", voice_mel(resampled).T)
    mel = log_mel(signal, floor=Floor.DYNAMIC, num_bins=NUM_TOKENIZER_BINS)
    checks.close("s3_logmel128", mel)
    checks.close("s3_padded_len", np.array([mel.shape[1]], dtype=np.int32))


def replay_prompt_prepare(context: VerifyContext, checks: CaseChecks) -> None:
    """Both recordings through the checkpoint's ONNX graphs; the first voice also through the flow."""
    folder = context.golden.checkpoint / "assets"
    front_end = VoiceFrontEnd(folder / "token2wav")
    spec = context.golden.inputs["audio"]["07_prompt_prepare"]
    samples, rate_hz = spec["samples"], spec["sample_rate"]
    channels = [audio_signal_int16(samples, spec[side]["seed"], rate_hz) for side in ("left", "right")]
    stereo = np.stack(channels).astype(np.float32) / np.float32(32768)
    voices = {
        "ht_ref": front_end.prepare(folder / "HT_ref_audio.wav"),
        "stereo44k": front_end.prepare((stereo, rate_hz)),
    }
    for name, voice in voices.items():
        checks.close(f"{name}.prompt_tokens", voice.codes)
        checks.close(f"{name}.prompt_tokens_len", np.array([len(voice.codes)]))
        checks.close(f"{name}.spk_emb", voice.xvector)
        checks.close(f"{name}.prompt_mels", voice.mel)
        checks.close(f"{name}.prompt_mels_len", np.array([len(voice.mel)]))
        _compare_voice_cache(context, checks, name, voice_prompt(voice, context.device))


def _compare_voice_cache(context: VerifyContext, checks: CaseChecks, name: str, voice: VoicePrompt) -> None:
    recorded = [other for other in checks.names() if re.match(rf"{name}\.(conformer|estimator)_", other)]
    if not recorded:
        return
    vocoder = recorded_vocoder(context)
    state = vocoder.code2wav.template(voice, vocoder.noise, vocoder.num_steps).flow
    for other in recorded:
        length = checks.golden.shape(checks.file, other)[3]
        if other.endswith(".conformer_att_cache_tail"):
            checks.close(other, doubled(state.encoder)[:, :, :, -length:])
        elif found := re.search(r"\.estimator_att_cache_step(\d+)_head$", other):
            checks.close(other, joined(state.solver, int(found[1]))[:, :, :, :length])
        else:
            checks.unknown(other)


def _tokenizer(context: VerifyContext) -> S3Tokenizer:
    return context.once("voice/s3", lambda: _load_tokenizer(context))


def _load_tokenizer(context: VerifyContext) -> S3Tokenizer:
    golden, file = context.golden, "07_s3_tokenizer/weights.safetensors"
    weights = {name: golden.tensor(file, name).float() for name in golden.tensor_names(file)}
    model = S3Tokenizer(S3Config.from_shapes({name: tuple(value.shape) for name, value in weights.items()}))
    model.load_state_dict(weights)
    return model.to(context.device)


def replay_s3_weights(context: VerifyContext, checks: CaseChecks) -> None:
    """All weights have a place, and the recorded names are all there are."""
    model = _tokenizer(context)
    for name in checks.names():
        checks.tensor(name)
    checks.equal("names", sorted(model.state_dict()), sorted(checks.names()))


def replay_s3_meta(context: VerifyContext, checks: CaseChecks) -> None:
    model = _tokenizer(context)
    for name, plan in context.golden.json(S3_META).items():
        mel = torch.from_numpy(_s3_mel(plan["samples"], plan["seed"]))[None].to(context.device)
        mel_len = torch.tensor([mel.shape[2]], device=context.device)
        codes, code_len = model(mel, mel_len)
        checks.equal(f"{name} frames", mel_len.tolist(), plan["mel_len"])
        checks.equal(f"{name} codes", code_len.tolist(), plan["code_len"])
        checks.equal(f"{name} distinct codes", len(set(codes[0].tolist())), plan["distinct_codes"])


def replay_s3_codes(context: VerifyContext, checks: CaseChecks) -> None:
    model = _tokenizer(context)
    meta = context.golden.json(S3_META)
    for name, plan in meta.items():
        mel = _s3_mel(plan["samples"], plan["seed"])
        shown = checks.golden.shape(checks.file, f"{name}.mel")[2]
        checks.close(f"{name}.mel", mel if shown == mel.shape[1] else mel[:, ::4])  # a long one: every fourth frame
        length = torch.tensor([mel.shape[1]], device=context.device)
        hidden, _ = model.encoder(torch.from_numpy(mel)[None].to(context.device), length)
        codes, low = model.quantizer(hidden)
        checks.close(f"{name}.hidden", hidden)
        checks.close(f"{name}.pre_round", low)
        checks.close(f"{name}.codes", codes)
    seed = context.golden.inputs["audio"]["07_s3_tokenizer"]["seed"]
    mels = [torch.from_numpy(_s3_mel(samples, seed)) for samples in BATCH_CLIP_SAMPLES]
    lengths = torch.tensor([mel.shape[1] for mel in mels], device=context.device)
    batch = torch.stack([pad(mel, (0, int(lengths.max()) - mel.shape[1])) for mel in mels])
    codes, code_len = model(batch.to(context.device), lengths)
    checks.close("batch.code_len", code_len)
    recorded = checks.tensor("batch.codes")
    checks.equal("batch.codes shape", list(codes.shape), list(recorded.shape))
    for row, length in enumerate(code_len.tolist()):  # behind a clip's end codes mean nothing
        checks.equal(f"batch.codes {row}", codes[row, :length].tolist(), recorded[row, :length].tolist())


def _s3_mel(num_samples: int, seed: int) -> NDArray[np.float32]:
    return log_mel(audio_signal(num_samples, seed), floor=Floor.DYNAMIC, num_bins=NUM_TOKENIZER_BINS)


REPLAYS = (
    ("07_code2wav/prompt_frontend.safetensors", replay_prompt_frontend),
    ("07_prompt_prepare/prepare.safetensors", replay_prompt_prepare),
    ("07_s3_tokenizer/weights.safetensors", replay_s3_weights),
    (S3_META, replay_s3_meta),
    ("07_s3_tokenizer/codes.safetensors", replay_s3_codes),
)
