"""Duplex sessions over worker processes: the twin's answers, the death of a worker, cancels, and sessions that rest."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from duplex_engine import Answer, Script, TwinAnswers, make_twin

from antiphon.config.load import load_deploy
from antiphon.core.errors import EngineError
from antiphon.engine.duplex_decision import DecisionSampling
from antiphon.pipeline.build import build_omni_model
from antiphon.pipeline.duplex.session import (
    Opened,
    SessionEvent,
    SessionFailed,
    SessionPlan,
    Spoken,
    UnitFailed,
    UnitFinished,
)
from antiphon.pipeline.omni_model import OmniModel
from antiphon.pipeline.process_engine import ProcessEngine
from antiphon.pipeline.processes.fleet import SupervisorSettings
from antiphon.pipeline.processes.worker_state import RestartPolicy
from antiphon.pipeline.voice_book import VoiceBook

SMALL = '"max_num_seqs": 4, "max_model_len": 1024, "kv_cache_memory_bytes": 16777216'
LAYOUTS = {
    "three workers": f'{{"0": {{{SMALL}, "devices": "0"}}, "1": {{{SMALL}, "devices": "1"}},'
    ' "2": {"max_num_seqs": 4, "devices": "2"}}',
    "two talkers": f'{{"0": {{{SMALL}, "devices": "0"}}, "1": {{{SMALL}, "devices": "1,2", "num_replicas": 2}},'
    ' "2": {"max_num_seqs": 4, "devices": "0"}}',
    "tensor parallel": f'{{"0": {{{SMALL}, "devices": "0,1", "tensor_parallel_size": 2}},'
    f' "1": {{{SMALL}, "devices": "0"}}, "2": {{"max_num_seqs": 4, "devices": "0"}}}}',
}
SILENCE_S = 2.0
SETTINGS = SupervisorSettings(restarts=RestartPolicy(first_pause_s=0.05), tick_s=0.1, input_wait_timeout_s=SILENCE_S)
HELD = ("sessions", "sequences", "streams", "slots_lent", "slots_retired", "blocks_used", "num_settling")
SCRIPTS = (
    Script(seed=5, num_units=5, listen_every=4),
    Script(seed=6, num_units=4, frames=1, sampling=DecisionSampling(temperature=1.5, top_k=0, top_p=1.0)),
    Script(seed=7, num_units=4, speaks=False),
)


@pytest.fixture(scope="module")
def twin(tiny_checkpoint: Path) -> Callable[[Script], TwinAnswers]:
    model = build_omni_model(tiny_checkpoint, device=torch.device("cpu"))
    return make_twin(model, VoiceBook(model).prepare(None))


@pytest.fixture(scope="module")
def front_model(tiny_checkpoint: Path) -> OmniModel:
    return build_omni_model(tiny_checkpoint, device=torch.device("cpu"), only=())


def start(front_model: OmniModel, name: str) -> ProcessEngine:
    deploy = load_deploy("cpu.yaml", platform="cpu", stage_overrides=LAYOUTS[name])
    engine = ProcessEngine(front_model, deploy, source=str(front_model.folder), settings=SETTINGS)
    engine.start(timeout_s=120)
    return engine


@pytest.fixture(scope="module")
def workers(front_model: OmniModel) -> Iterator[ProcessEngine]:
    engine = start(front_model, "three workers")
    yield engine
    engine.close()


class Client:
    """One session; the test's thread waits for what comes on the engine's."""

    def __init__(self, engine: ProcessEngine, name: str, script: Script) -> None:
        self.script, self.events = script, list[SessionEvent]()
        self._changed = threading.Condition()
        voice = engine.voices.prepare(None) if script.speaks else None
        plan = SessionPlan(session_id=name, voice=voice, seed=script.seed, window=script.window)
        self.handle = engine.duplex.open(plan, self._take)
        self.wait(lambda event: isinstance(event, Opened))

    def _take(self, event: SessionEvent) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def wait(self, wanted: Callable[[SessionEvent], bool], timeout_s: float = 30) -> SessionEvent:
        with self._changed:
            ok = self._changed.wait_for(lambda: any(map(wanted, self.events)) or self.failure is not None, timeout_s)
            assert ok, self.events
            return next(event for event in self.events if wanted(event))

    @property
    def failure(self) -> SessionFailed | None:
        return next((event for event in self.events if isinstance(event, SessionFailed)), None)

    def say(self, number: int, epoch: int = 0) -> UnitFinished:
        self.handle.append(self.script.unit(number, epoch))
        event = self.wait(
            lambda event: (
                isinstance(event, (UnitFinished, UnitFailed)) and (event.epoch, event.number) == (epoch, number)
            )
        )
        assert isinstance(event, UnitFinished)
        return event

    def check(self, wanted: TwinAnswers) -> None:
        for number in range(self.script.num_units):
            self.check_unit(wanted.answers[number], self.say(number))

    def check_unit(self, want: Answer, got: UnitFinished) -> None:
        assert (got.is_listen, got.num_codec_frames) == (want.is_listen, len(want.codes))
        spoken = [e for e in self.events if isinstance(e, Spoken) and (e.epoch, e.number) == (got.epoch, got.number)]
        assert "".join(event.text for event in spoken) == want.text
        assert sum(len(event.samples) for event in spoken) == len(want.samples)
        if len(want.samples):
            assert abs(spoken[0].samples - want.samples).max() < 2e-3


def wait(condition: Callable[[], bool], timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)


def wait_for_calm(engine: ProcessEngine) -> None:
    def held() -> dict[str, float]:
        return {name: value for name, value in engine.snapshot().items() if name.endswith(HELD) and value}

    wait(lambda: not engine.supervisor.num_requests)
    wait(lambda: not held())
    assert engine.duplex.num_sessions == 0


@pytest.mark.parametrize("name", ["three workers", "tensor parallel"])
def test_sessions_in_worker_processes_answer_as_the_twin(
    front_model: OmniModel, workers: ProcessEngine, twin: Callable[[Script], TwinAnswers], name: str
) -> None:
    engine = workers if name == "three workers" else start(front_model, name)
    clients = [Client(engine, f"{name}-{number}", script) for number, script in enumerate(SCRIPTS)]
    for client in clients:
        client.check(twin(client.script))
    assert any(not event.is_listen for client in clients for event in client.events if isinstance(event, UnitFinished))
    for client in clients:
        client.handle.close()
    wait_for_calm(engine)
    if engine is not workers:
        engine.close()


def test_a_session_goes_on_after_cancels(workers: ProcessEngine) -> None:
    client = Client(workers, "cancelled", SCRIPTS[0])
    for epoch in range(4):
        client.say(0, epoch)
        client.handle.append(client.script.unit(1, epoch))
        client.handle.cancel(epoch + 1)
    assert client.say(0, 4).epoch == 4
    client.handle.close()
    wait_for_calm(workers)


def test_a_session_that_rests_is_not_ended(workers: ProcessEngine) -> None:
    client = Client(workers, "quiet", SCRIPTS[0])
    client.say(0)
    time.sleep(1.5 * SILENCE_S)  # the supervisor looks at the true clock
    client.handle.append(client.script.unit(1))
    client.handle.cancel(1)
    time.sleep(1.5 * SILENCE_S)
    assert client.failure is None
    client.say(0, 1)
    client.handle.close()
    wait_for_calm(workers)


def test_a_killed_talker_ends_its_own_sessions_only(front_model: OmniModel) -> None:
    engine = start(front_model, "two talkers")
    script = replace(SCRIPTS[0], num_units=30)
    clients = [Client(engine, f"s{number}", script) for number in range(2)]
    text = Client(engine, "text", SCRIPTS[2])
    for client in (*clients, text):
        client.say(0)
    killed = engine.health().workers[1].pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    wait(lambda: any(client.failure for client in clients))
    (hit,) = [client for client in clients if client.failure]
    (spared,) = [client for client in clients if not client.failure]
    failure = hit.failure
    assert failure is not None
    assert failure.stage == "talker"
    assert isinstance(failure.error, EngineError)
    assert str(failure.error).startswith("worker w1 (talker) died (killed by SIGKILL)")
    for number in range(1, 4):
        spared.say(number)
        text.say(number)
    wait(lambda: engine.health().stage("talker").state == "ready" and engine.health().workers[1].num_restarts == 1)
    late = [Client(engine, f"late{number}", script) for number in range(2)]  # one of them is on the new worker
    for client in late:
        for number in range(3):
            client.say(number)
    for client in (*late, spared, text):
        client.handle.close()
    wait_for_calm(engine)
    engine.close()
