"""The trials of the switches: run both settings on the same input, and compare as the class demands."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from antiphon.config.optimizations import SwitchValue
from antiphon.engine.counters import Counters
from antiphon.engine.settings import Code2WavSettings
from antiphon.layers.kernels import has_triton
from antiphon.offline.gate.audio_rows import close_rows, encode_streams
from antiphon.offline.gate.code2wav_runs import (
    ALONE,
    TOGETHER,
    VOICE,
    Samples,
    make_speech,
    make_speech_eagerly,
    make_voice,
    open_engine,
    voice_streams,
)
from antiphon.offline.gate.code_draws import check_code_law
from antiphon.offline.gate.early_stop import check_early_stop
from antiphon.offline.gate.source_noise import check_noise_law
from antiphon.offline.gate.speech_checks import bounded_samples, close_samples, same_samples
from antiphon.offline.gate.subject import Subject, settings_with, talker_of
from antiphon.offline.gate.talker_runs import BATCH, GREEDY, Codes, draw_codes
from antiphon.offline.gate.text_checks import agreeing_codes, close_texts, same_codes, same_texts
from antiphon.offline.gate.thinker_runs import draw_texts
from antiphon.offline.gate.verdict import Check
from antiphon.pipeline.eager.vocoder import voice_prompt

EAGER = "eager path"


class Need(Enum):
    """What a fast path cannot do without; the words say what is missing."""

    NOTHING = ""
    CUDA = "needs a CUDA device"
    KERNELS = "needs a CUDA device with Triton"


@dataclass(frozen=True, kw_only=True)
class Run:
    """One trial: *switch* between *plain* and *fast*. Counters are those of the fast side."""

    subject: Subject
    switch: str
    plain: SwitchValue | str
    fast: SwitchValue
    counters: Counters

    def settings(self, *, is_fast: bool, **others: SwitchValue) -> dict[str, SwitchValue]:
        value = self.fast if is_fast or self.plain == EAGER else self.plain
        return {self.switch: value, **others}


Trial = Callable[[Run], list[Check]]


@dataclass(frozen=True, kw_only=True)
class Gate:
    """How a switch is tried.

    Attributes:
        plain: the setting of the slow twin; `EAGER` where the engine has none and the eager path stands in.
        counters: all of them must move.
    """

    plain: SwitchValue | str
    counters: tuple[str, ...]
    trial: Trial
    need: Need = Need.NOTHING

    def missing(self, subject: Subject) -> str:
        """What this machine lacks for the fast path, or an empty string."""
        has_need = {
            Need.NOTHING: True,
            Need.CUDA: subject.is_cuda,
            Need.KERNELS: subject.is_cuda and has_triton(),
        }
        return "" if has_need[self.need] else self.need.value


def try_texts(run: Run) -> list[Check]:
    """Lossless, Thinker."""
    subject = run.subject
    plain = settings_with(subject.model, **run.settings(is_fast=False)).thinker
    fast = settings_with(subject.candidate, **run.settings(is_fast=True)).thinker
    return same_texts(
        draw_texts(subject.model, plain, Counters()), draw_texts(subject.candidate, fast, run.counters)
    )  # fmt: skip


def try_codes(run: Run) -> list[Check]:
    """Lossless, Talker."""
    subject = run.subject
    plain = settings_with(subject.model, **run.settings(is_fast=False)).talker
    fast = settings_with(subject.candidate, **run.settings(is_fast=True)).talker
    return same_codes(
        draw_codes(subject.model, plain, Counters()), draw_codes(subject.candidate, fast, run.counters)
    )  # fmt: skip


def try_code_law(run: Run) -> list[Check]:
    """Distribution, Talker: the law, and that draws depend on the seed alone."""
    subject = run.subject
    settings = settings_with(subject.candidate, **run.settings(is_fast=True)).talker
    checks = check_code_law(subject.model, subject.candidate, settings, run.counters, subject.num_draws)
    together = draw_codes(subject.candidate, settings, run.counters, (BATCH,))
    reversed_slots = draw_codes(subject.candidate, settings, Counters(), (BATCH[::-1],))
    checks.append(_other_codes("speeches that depend on their slot", together, reversed_slots))
    if not subject.is_cuda:  # there, products of another batch size round otherwise, and so draw otherwise
        one_slot = replace(settings, num_slots=1, windows=(1,), use_step_window=False)
        alone = draw_codes(subject.candidate, one_slot, Counters(), tuple((speech,) for speech in BATCH))
        checks.append(_other_codes("speeches that depend on batch or window", together, alone))
    return checks


def _other_codes(name: str, first: dict[str, Codes], second: dict[str, Codes]) -> Check:
    return Check(name=name, value=sum(first[key].ids != second[key].ids for key in first), limit=0.0)


def try_early_stop(run: Run) -> list[Check]:
    return check_early_stop(run.subject, run.counters)


def try_noise_law(run: Run) -> list[Check]:
    """Distribution, excitation; a stream is voiced to show that the engine draws so."""
    subject = run.subject
    engine = open_engine(subject.candidate, _vocoder(run, is_fast=True), run.counters)
    voice_streams(engine, subject.candidate, tuple(ALONE))
    return check_noise_law(subject.device, 50 * subject.num_draws)


def try_samples(run: Run) -> list[Check]:
    """Lossless, Code2Wav: all shapes captured, then with shapes that are not, which must fall back."""
    subject = run.subject
    plain = make_speech(subject.model, _vocoder(run, is_fast=False), Counters())
    checks = same_samples(plain, make_speech(subject.candidate, _vocoder(run, is_fast=True), run.counters))
    without_tails = replace(_vocoder(run, is_fast=True), capture_tails=False)
    fallen_back = make_speech(subject.candidate, without_tails, run.counters)
    return [*checks, *same_samples(plain, fallen_back, "the same, with shapes that are not captured")]


def try_modulation(run: Run) -> list[Check]:
    """The table against modulation computed at each step. The eager path also adds in another order."""
    subject = run.subject
    settings = replace(_vocoder(run, is_fast=True), use_tf32=False)
    plain = make_speech_eagerly(subject.model, settings.num_steps)
    return close_samples(plain, make_speech(subject.candidate, settings, run.counters))


def try_voice_cache(run: Run) -> list[Check]:
    """A voice that was kept against one made anew for every stream."""
    subject, settings = run.subject, _vocoder(run, is_fast=True)
    plain: dict[str, Samples] = {}
    for name in TOGETHER:
        plain |= voice_streams(open_engine(subject.model, settings, Counters()), subject.model, (name,))
    fast: dict[str, Samples] = {}
    engine = open_engine(subject.candidate, settings, run.counters)
    for name in TOGETHER:
        engine.add_voice(VOICE, voice_prompt(make_voice(subject.candidate), subject.device))
        fast |= voice_streams(engine, subject.candidate, (name,))
    return same_samples(plain, fast)


def try_rounded_attention(run: Run) -> list[Check]:
    """Rounding, Thinker and Talker."""
    subject = run.subject
    model, candidate = subject.model, subject.candidate
    plain = settings_with(model, **run.settings(is_fast=False))
    fast = settings_with(candidate, **run.settings(is_fast=True))
    head = model.thinker.llm.lm_head.weight.detach()
    texts = close_texts(
        draw_texts(model, plain.thinker, Counters()),
        draw_texts(candidate, fast.thinker, run.counters),
        head,
        head.dtype,
    )
    return [*texts, *try_rounded_codes(run)]


def try_rounded_rows(run: Run) -> list[Check]:
    """Rounding, audio of live sessions."""
    subject = run.subject
    plain = settings_with(subject.model, **run.settings(is_fast=False)).thinker
    fast = settings_with(subject.candidate, **run.settings(is_fast=True)).thinker
    return close_rows(
        encode_streams(subject.model, plain, Counters()),
        encode_streams(subject.candidate, fast, run.counters),
        subject.model.thinker.llm.lm_head.weight.dtype,
    )


def try_rounded_codes(run: Run) -> list[Check]:
    """Rounding, Talker."""
    subject = run.subject
    plain = settings_with(subject.model, **run.settings(is_fast=False)).talker
    fast = settings_with(subject.candidate, **run.settings(is_fast=True)).talker
    groups = tuple((speech,) for speech in GREEDY)
    return agreeing_codes(
        draw_codes(subject.model, plain, Counters(), groups),
        draw_codes(subject.candidate, fast, run.counters, groups),
        talker_of(subject.model).emb_text.weight.dtype,
    )


def try_rounded_samples(run: Run) -> list[Check]:
    """Rounding, Code2Wav; in plain float32, so that nothing else differs."""
    subject = run.subject
    plain = replace(_vocoder(run, is_fast=False), use_tf32=False)
    fast = replace(_vocoder(run, is_fast=True), use_tf32=False)
    return close_samples(
        make_speech(subject.model, plain, Counters()), make_speech(subject.candidate, fast, run.counters)
    )  # fmt: skip


def try_bounded_samples(run: Run) -> list[Check]:
    """Bounded, Code2Wav: against the plain setting in float32."""
    subject = run.subject
    plain = replace(_vocoder(run, is_fast=False), use_tf32=False)
    fast = _vocoder(run, is_fast=True)
    return bounded_samples(
        make_speech(subject.model, plain, Counters()), make_speech(subject.candidate, fast, run.counters)
    )  # fmt: skip


def _vocoder(run: Run, *, is_fast: bool) -> Code2WavSettings:
    model = run.subject.candidate if is_fast else run.subject.model
    return settings_with(model, **run.settings(is_fast=is_fast)).code2wav


GATES: dict[str, Gate] = {
    "talker_window_steps": Gate(plain=1, counters=("talker_step_window",), trial=try_codes),
    "talker_graph": Gate(plain=False, counters=("talker_graph",), trial=try_codes, need=Need.CUDA),
    "talker_sampler": Gate(plain=EAGER, counters=("talker_sampler",), trial=try_code_law),
    "thinker_graph": Gate(plain=False, counters=("thinker_graph",), trial=try_texts, need=Need.KERNELS),
    "audio_stream_batch": Gate(plain=False, counters=("audio_stream_batch",), trial=try_rounded_rows),
    "early_stop": Gate(plain=False, counters=("early_stop",), trial=try_early_stop),
    "cfm_steps": Gate(plain=10, counters=("adaln_table",), trial=try_bounded_samples),
    "cfm_graph": Gate(plain=False, counters=("cfm_graph",), trial=try_samples, need=Need.CUDA),
    "adaln_table": Gate(plain=EAGER, counters=("adaln_table",), trial=try_modulation),
    "dit_precision": Gate(plain="fp32", counters=("dit_tf32",), trial=try_bounded_samples, need=Need.CUDA),
    "hift_graph": Gate(plain=False, counters=("hift_graph",), trial=try_samples, need=Need.CUDA),
    "hift_noise": Gate(plain=EAGER, counters=("hift_noise",), trial=try_noise_law),
    "voice_template_cache": Gate(plain=EAGER, counters=("voice_template_cache",), trial=try_voice_cache),
    "fused_attention": Gate(
        plain=False, counters=("thinker_triton", "talker_triton"), trial=try_rounded_attention, need=Need.KERNELS
    ),
    "fused_products": Gate(plain=False, counters=("fused_products",), trial=try_rounded_codes, need=Need.KERNELS),
    "fused_dit": Gate(plain=False, counters=("cfm_triton",), trial=try_rounded_samples, need=Need.KERNELS),
}
# Those whose default is a fast path; the defaults of the others are the slow twin, or a product decision.
ON_BY_DEFAULT = tuple(name for name in GATES if name != "cfm_steps")
