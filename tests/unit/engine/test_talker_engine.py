"""The Talker engine against the eager generator, which draws from the same counter RNG. 32 codec ids, 31 ends."""

import random
from collections import defaultdict
from itertools import count

import pytest
import torch

from antiphon.config.checkpoint import DecoderConfig, TalkerConfig
from antiphon.core.errors import CapacityError, ConfigError, ContextLengthError, PromptError, SamplingError, StateError
from antiphon.engine.counter_noise import CounterNoise
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.noise import Argmax
from antiphon.engine.settings import TalkerSettings
from antiphon.engine.talker_engine import TalkerEngine
from antiphon.engine.talker_job import TalkerCondition, TalkerJob, TalkerMode
from antiphon.engine.talker_sampling import TalkerSampling
from antiphon.models.talker.talker import Talker
from antiphon.pipeline.eager.talker import CodeStop, TalkerSequence
from antiphon.pipeline.eager.talker_condition import close_condition, condition_rows, unit_condition
from antiphon.pipeline.eager.talker_stream import TalkerStream

WINDOWS = (1, 2, 4, 8, 25, 28)


def config(*, max_positions=4096, attention_type="full_attention", num_kv_heads=2):
    decoder = DecoderConfig(
        hidden_size=16,
        intermediate_size=24,
        num_layers=2,
        num_heads=2,
        num_kv_heads=num_kv_heads,
        head_dim=8,
        rms_norm_eps=1e-6,
        rope_theta=10_000.0,
        max_positions=max_positions,
        has_qk_norm=False,
    )
    return TalkerConfig(
        decoder=decoder,
        llm_hidden_size=12,
        num_codec_ids=32,
        num_text_ids=40,
        audio_bos_id=38,
        text_eos_id=39,
        normalize_projected=True,
        attention_type=attention_type,
        window_chunks=2,
        recomputed_chunks=1,
        window_tokens=12,
    )


def make_talker(**changes):
    torch.manual_seed(5)
    return Talker(config(**changes)).requires_grad_(False)


def make_engine(talker=None, *, counters=None, **settings):
    device = torch.device("cpu")
    return TalkerEngine(
        talker or make_talker(),
        TalkerSettings(**settings),
        device=device,
        dtype=torch.float32,
        counters=counters or Counters(),
        stream=DeviceStream(device),
        clock=lambda: 0.0,
    )


def piece(length, seed, **fields):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 38, (length,), generator=generator).tolist()
    hidden = torch.randn(length, 12, generator=generator)
    defaults = {"has_text_eos": False, "is_last": False}
    return TalkerCondition(ids=tuple(ids), hidden=hidden, **(defaults | fields))


def script(mode, seed):
    """A job and its conditions, different for every seed."""
    chance = random.Random(seed)
    job = TalkerJob(
        seq_id=f"{mode.value}-{seed}",
        epoch=seed,
        sampling=TalkerSampling(),
        seed=seed * 977,
        mode=mode,
        min_codes=chance.choice((0, 7, 50)),
        max_codes=chance.choice((30, 70)) if mode is TalkerMode.SPAN else 4000,
    )
    if mode is TalkerMode.SPAN:
        return job, [piece(chance.randint(1, 9), seed, has_text_eos=True, is_last=True)]
    lengths = [chance.randint(0 if mode is TalkerMode.UNIT else 1, 8) for _ in range(4)]
    conditions = []
    for index, length in enumerate(lengths):
        is_last = index == len(lengths) - 1
        has_text_eos = is_last and mode is TalkerMode.STREAM
        ends_turn = mode is TalkerMode.UNIT and (index == 1 or is_last)
        most = chance.choice((3, 26, 40)) if mode is TalkerMode.STREAM else None
        fields = {"has_text_eos": has_text_eos, "is_last": is_last, "ends_turn": ends_turn, "max_draws": most}
        conditions.append(piece(length, seed * 100 + index, **fields))
    return job, conditions


def eager(talker, job, conditions):
    """The codes of each condition, and whether the end code ended the last."""
    noise = Argmax() if job.is_greedy else CounterNoise(job.seed)
    spoken, has_ended = [], False
    sequence = TalkerSequence(talker, noise, sampling=job.sampling)
    stream = TalkerStream(talker, noise, sampling=job.sampling, block_size=1)
    for condition in conditions:
        rows = condition_rows(talker, condition.ids, list(condition.hidden))
        if job.mode is TalkerMode.SPAN:
            whole = close_condition(talker, rows, has_text_eos=condition.has_text_eos)
            result = sequence.generate(whole, min_codes=job.min_codes, max_draws=job.max_codes + 1)
            spoken.append(result.codes)
            has_ended = result.stop is CodeStop.EOS
        elif job.mode is TalkerMode.UNIT:
            unit = unit_condition(talker, condition.ids, list(condition.hidden))
            spoken.append(sequence.speak_unit(unit, ends_turn=condition.ends_turn).codes)
            has_ended = True
        else:
            stream.max_codes = condition.max_draws or 500
            blocks = list(stream.speak(rows, is_last_text=condition.has_text_eos))
            spoken.append(tuple(code for block in blocks for code in block.codes))
            has_ended = bool(blocks) and blocks[-1].is_final
    return spoken, has_ended


class Listener:
    """Collects an engine's outputs by sequence."""

    def __init__(self, engine):
        self.engine = engine
        self.codes = defaultdict(lambda: [[]])  # by sequence: codes of each condition
        self.finish = {}
        self.rollovers = defaultdict(int)

    def turn(self):
        has_launched = self.engine.launch()
        for output in self.engine.collect():
            assert output.seq_id not in self.finish
            self.codes[output.seq_id][-1] += output.codes
            self.rollovers[output.seq_id] += output.has_rolled_over
            if output.condition_ended:
                self.codes[output.seq_id].append([])
            if output.finish_reason is not None:
                self.finish[output.seq_id] = output.finish_reason
        return has_launched

    def run(self):
        while self.turn():
            pass

    def spoken(self, seq_id):
        return [tuple(codes) for codes in self.codes[seq_id] if codes]


def expected(talker, job, conditions):
    spoken, has_ended = eager(talker, job, conditions)
    return [codes for codes in spoken if codes], "stop" if has_ended else "length"


def speak_all(engine, scripts):
    listener = Listener(engine)
    for job, conditions in scripts:
        engine.admit(job)
        for condition in conditions:
            engine.extend(job.seq_id, condition)
    listener.run()
    return listener


def require_equal(listener, talker, scripts):
    for job, conditions in scripts:
        codes, reason = expected(talker, job, conditions)
        assert listener.spoken(job.seq_id) == codes, job.seq_id
        assert listener.finish[job.seq_id] == reason


def require_nothing_left(engine, num_slots=16):
    snapshot = engine.snapshot()
    assert (snapshot["sequences"], snapshot["slots_free"]) == (0, num_slots)


@pytest.mark.parametrize("mode", list(TalkerMode))
@pytest.mark.parametrize("batch", [1, 2, 5, 16])
def test_codes_are_the_eager_generator_s_for_every_batch(mode, batch):
    engine, talker = make_engine(), make_talker()
    scripts = [script(mode, seed) for seed in range(batch)]
    require_equal(speak_all(engine, scripts), talker, scripts)
    require_nothing_left(engine)


@pytest.mark.parametrize("longest", WINDOWS)
def test_codes_do_not_depend_on_the_window(longest):
    engine, talker = make_engine(windows=(1, longest)), make_talker()
    scripts = [script(mode, 40 + seed) for mode in TalkerMode for seed in range(2)]
    require_equal(speak_all(engine, scripts), talker, scripts)


def test_the_window_can_be_switched_off():
    engine, talker = make_engine(use_step_window=False), make_talker()
    scripts = [script(TalkerMode.SPAN, 1)]
    require_equal(speak_all(engine, scripts), talker, scripts)


@pytest.mark.parametrize("seed", range(4))
def test_rows_join_and_leave_at_random_without_changing_each_other(seed):
    chance = random.Random(seed)
    engine, talker = make_engine(num_slots=5), make_talker()
    listener = Listener(engine)
    modes = list(TalkerMode)
    waiting = [script(chance.choice(modes), 100 * seed + index) for index in range(14)]
    scripts, aborted, given = list(waiting), set(), []
    while waiting or given or not engine.is_idle:
        action = chance.random()
        if action < 0.3 and waiting:
            job, conditions = waiting.pop()
            engine.admit(job)
            given.append((job, list(conditions)))
        elif action < 0.6 and given:
            job, conditions = chance.choice(given)
            if job.seq_id not in aborted:
                engine.extend(job.seq_id, conditions.pop(0))
            if job.seq_id in aborted or not conditions:
                given = [entry for entry in given if entry[0] is not job]
        elif action < 0.63 and given:
            job = chance.choice(given)[0]
            engine.abort(job.seq_id)
            aborted.add(job.seq_id)
        listener.turn()
    assert len(listener.finish) == len(scripts)
    require_equal(listener, talker, [entry for entry in scripts if entry[0].seq_id not in aborted])
    assert {listener.finish[seq_id] for seq_id in aborted} <= {"abort"}
    require_nothing_left(engine, 5)


def test_grouped_key_heads_are_attended_to():
    talker = make_talker(num_kv_heads=1)
    scripts = [script(TalkerMode.SPAN, 3), script(TalkerMode.STREAM, 4)]
    require_equal(speak_all(make_engine(make_talker(num_kv_heads=1)), scripts), talker, scripts)


def test_greedy_and_other_parameters_are_kept_apart_in_one_batch():
    talker, scripts = make_talker(), []
    for index, sampling in enumerate(
        (
            TalkerSampling(),
            TalkerSampling(top_k=0, top_p=0.5),
            TalkerSampling(top_k=3, temperature=1.4, min_keep=1),
            TalkerSampling(repetition_penalty=1.6, penalty_window=5),
        )
    ):
        job, conditions = script(TalkerMode.SPAN, index)
        fields = job.__dict__ | {"sampling": sampling, "is_greedy": index == 1}
        scripts.append((TalkerJob(**fields), conditions))
    require_equal(speak_all(make_engine(), scripts), talker, scripts)


def test_a_larger_top_k_than_captured_gives_the_same_codes():
    job, conditions = script(TalkerMode.SPAN, 2)
    job = TalkerJob(**(job.__dict__ | {"sampling": TalkerSampling(top_k=20, top_p=0.99)}))
    require_equal(speak_all(make_engine(max_top_k=8), [(job, conditions)]), make_talker(), [(job, conditions)])


def test_units_of_a_long_turn_roll_over_as_the_eager_context_does():
    talker = make_talker(max_positions=70)
    engine = make_engine(make_talker(max_positions=70))
    job = TalkerJob(seq_id="a", epoch=0, sampling=TalkerSampling(), seed=9, mode=TalkerMode.UNIT)
    units = [piece(3 + index, index, is_last=index == 5) for index in range(6)]
    listener = speak_all(engine, [(job, units)])
    require_equal(listener, talker, [(job, units)])
    assert listener.rollovers["a"] >= 3


@pytest.mark.parametrize("max_positions", [60, 100])
def test_a_stream_rolls_over_with_its_gap_and_its_history(max_positions):
    talker = make_talker(max_positions=max_positions)
    engine = make_engine(make_talker(max_positions=max_positions))
    job = TalkerJob(seq_id="a", epoch=0, sampling=TalkerSampling(), seed=9, mode=TalkerMode.STREAM)
    pieces = [
        piece(4, index, has_text_eos=index == 5, is_last=index == 5, max_draws=(5, 40)[index % 2]) for index in range(6)
    ]
    listener = speak_all(engine, [(job, pieces)])
    require_equal(listener, talker, [(job, pieces)])
    assert listener.rollovers["a"] >= 1


def test_a_span_that_meets_the_last_position_says_so():
    talker = make_talker(max_positions=20)
    engine = make_engine(make_talker(max_positions=20))
    job = TalkerJob(seq_id="a", epoch=0, sampling=TalkerSampling(), seed=9, mode=TalkerMode.SPAN)
    conditions = [piece(4, 0, has_text_eos=True, is_last=True)]
    listener = speak_all(engine, [(job, conditions)])
    assert listener.spoken("a") == eager(talker, job, conditions)[0]
    assert listener.finish["a"] == "context"


def test_a_condition_that_fits_no_context_ends_its_job_only():
    engine = make_engine(make_talker(max_positions=20))
    job = TalkerJob(seq_id="a", epoch=0, sampling=TalkerSampling(), seed=9, mode=TalkerMode.SPAN)
    long = [piece(19, 0, has_text_eos=True, is_last=True)]
    other = TalkerJob(seq_id="b", epoch=0, sampling=TalkerSampling(), seed=9, mode=TalkerMode.SPAN)
    listener = speak_all(engine, [(job, long), (other, [piece(4, 0, has_text_eos=True, is_last=True)])])
    assert listener.finish["a"] == "context"
    assert listener.spoken("b")
    with pytest.raises(ContextLengthError):
        eager(make_talker(max_positions=20), job, long)


def test_a_stream_ends_at_its_code_limit_even_before_its_last_condition():
    engine, talker = make_engine(), make_talker()
    job = TalkerJob(seq_id="a", epoch=0, sampling=TalkerSampling(), seed=4, mode=TalkerMode.STREAM, max_codes=9)
    listener = speak_all(engine, [(job, [piece(5, 1), piece(5, 2)])])
    whole = [code for codes in eager(talker, job, [piece(5, 1), piece(5, 2)])[0] for code in codes]
    assert [code for codes in listener.spoken("a") for code in codes] == whole[:9]
    assert listener.finish["a"] == "length"


def test_nan_in_one_condition_ends_that_job_and_changes_no_other():
    engine, talker = make_engine(num_slots=3), make_talker()
    scripts = [script(TalkerMode.SPAN, seed) for seed in (1, 2, 3, 4)]
    bad = TalkerJob(seq_id="bad", epoch=0, sampling=TalkerSampling(), seed=9, mode=TalkerMode.SPAN)
    poison = TalkerCondition(ids=(1, 2), hidden=torch.full((2, 12), torch.nan), has_text_eos=True, is_last=True)
    listener = speak_all(engine, [(bad, [poison]), *scripts])
    assert listener.finish["bad"] == "error"
    require_equal(listener, talker, scripts)  # one of them took the poisoned slot over
    require_nothing_left(engine, 3)


class HeldFence:
    def __init__(self):
        self.has_passed = False

    def is_done(self):
        return self.has_passed

    def wait(self):
        raise AssertionError("the engine must not wait")


@pytest.fixture
def held(monkeypatch):
    """An engine whose launches finish when told to."""
    engine = make_engine(num_slots=1)
    fences = []
    monkeypatch.setattr(engine.stream, "fence", lambda: fences.append(HeldFence()) or fences[-1])
    return engine, fences


def test_a_slot_returns_only_behind_the_window_that_may_write_to_it(held):
    engine, fences = held
    (job, conditions), (other, others) = script(TalkerMode.SPAN, 1), script(TalkerMode.SPAN, 2)
    engine.admit(job)
    engine.extend(job.seq_id, conditions[0])
    assert engine.launch()
    assert engine.collect() == []
    fences[-1].has_passed = True
    engine.collect()
    assert engine.launch()
    engine.abort(job.seq_id)
    engine.admit(other)
    engine.extend(other.seq_id, others[0])
    assert [output.finish_reason for output in engine.collect()] == ["abort"]
    assert engine.snapshot()["slots_retired"] == 1
    assert not engine.launch()
    fences[-1].has_passed = True
    assert engine.collect() == []
    assert engine.launch()


def test_an_abort_at_any_point_leaves_no_slot():
    engine = make_engine(num_slots=2)
    for turns in range(12):
        for mode in TalkerMode:
            job, conditions = script(mode, turns)
            engine.admit(job)
            listener = Listener(engine)
            for condition in conditions:
                engine.extend(job.seq_id, condition)
            for _ in range(turns):
                listener.turn()
            engine.abort(job.seq_id)
            listener.run()
            assert len(listener.finish) == 1
            require_nothing_left(engine, 2)


def test_more_jobs_than_slots_wait_by_deadline():
    engine, talker = make_engine(num_slots=1), make_talker()
    scripts = []
    for seed, deadline in ((1, 3.0), (2, 2.0), (3, 1.0)):
        job, conditions = script(TalkerMode.SPAN, seed)
        scripts.append((TalkerJob(**(job.__dict__ | {"deadline_s": deadline})), conditions))
    listener = speak_all(engine, scripts)
    require_equal(listener, talker, scripts)
    assert list(listener.finish) == ["span-3", "span-2", "span-1"]


def test_the_units_of_sessions_wait_by_their_own_deadlines():
    engine = make_engine(num_slots=1)
    for seq_id, deadlines in (("early", (1.0, 4.0)), ("late", (2.0, 3.0))):
        engine.admit(TalkerJob(seq_id=seq_id, epoch=0, sampling=TalkerSampling(), seed=9, mode=TalkerMode.UNIT))
        for deadline_s in deadlines:
            engine.extend(seq_id, piece(3, 1, ends_turn=True, deadline_s=deadline_s))
    ended = []
    while engine.launch():
        ended += [output.seq_id for output in engine.collect() if output.condition_ended]
    assert ended == ["early", "late", "late", "early"]


def test_a_session_holds_no_slot_between_turns():
    engine = make_engine(num_slots=1)
    job = TalkerJob(seq_id="a", epoch=0, sampling=TalkerSampling(), seed=9, mode=TalkerMode.UNIT)
    listener = speak_all(engine, [(job, [piece(3, 1, ends_turn=True)])])
    assert engine.snapshot()["slots_free"] == 1
    engine.close_input("a")
    listener.run()
    assert listener.finish["a"] == "stop"


def test_outputs_carry_the_epoch_of_their_job():
    engine = make_engine()
    job, conditions = script(TalkerMode.SPAN, 6)
    engine.admit(job)
    engine.extend(job.seq_id, conditions[0])
    engine.launch()
    assert [output.epoch for output in engine.collect()] == [6]


def test_uses_and_fall_backs_are_counted():
    counters = Counters()
    speak_all(make_engine(counters=counters), [script(TalkerMode.SPAN, 1)])
    assert counters.used["talker_step_window"] > 0
    assert counters.fell_back["talker_triton", "no CUDA device"] > 0


def test_jobs_that_cannot_be_honoured_are_refused():
    engine = make_engine(max_queued_seqs=1)
    job, conditions = script(TalkerMode.SPAN, 1)
    for field, value in (("seed", -1), ("max_codes", 0), ("sampling", TalkerSampling(penalty_window=17))):
        with pytest.raises(SamplingError):
            engine.admit(TalkerJob(**(job.__dict__ | {field: value})))
    engine.admit(job)
    with pytest.raises(StateError, match="already"):
        engine.admit(job)
    with pytest.raises(CapacityError):
        engine.admit(script(TalkerMode.SPAN, 2)[0])
    engine.extend(job.seq_id, conditions[0])
    with pytest.raises(StateError, match="last condition"):
        engine.extend(job.seq_id, conditions[0])
    with pytest.raises(StateError, match="nobody"):
        engine.extend("nobody", conditions[0])


def test_conditions_that_would_break_a_launch_are_refused():
    engine = make_engine(max_queued_conditions=1)
    job, _ = script(TalkerMode.STREAM, 1)
    engine.admit(job)
    good = piece(2, 1)
    for field, value in (("ids", (1,)), ("ids", (1, 40)), ("max_draws", 0)):
        with pytest.raises(PromptError):
            engine.extend(job.seq_id, TalkerCondition(**(good.__dict__ | {field: value})))
    engine.extend(job.seq_id, good)
    with pytest.raises(CapacityError):
        engine.extend(job.seq_id, good)


def test_streaming_by_other_attention_types_is_refused():
    engine = make_engine(make_talker(attention_type="sliding_window"))
    with pytest.raises(ConfigError, match="sliding_window"):
        engine.admit(script(TalkerMode.STREAM, 1)[0])


def test_an_abort_of_an_unknown_name_is_nothing():
    make_engine().abort("gone")


def test_long_conditions_start_one_after_another():
    engine, talker = make_engine(max_condition_tokens=10), make_talker()
    numbers = count()
    scripts = [
        (job, [piece(8, next(numbers), has_text_eos=True, is_last=True)])
        for job, _ in (script(TalkerMode.SPAN, s) for s in range(3))
    ]
    require_equal(speak_all(engine, scripts), talker, scripts)
