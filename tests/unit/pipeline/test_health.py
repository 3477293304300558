from antiphon.pipeline.health import Health, WorkerHealth, assess
from antiphon.pipeline.processes.worker_state import WorkerState

STAGES = ("thinker", "talker")


def worker(name: str, stage: str, state: WorkerState, *, is_alive: bool = True) -> WorkerHealth:
    return WorkerHealth(
        name=name,
        stages=(stage,),
        device="cpu",
        state=state,
        pid=1 if is_alive else None,
        num_restarts=0,
        progress="",
        last_error="",
    )


def judge(*talkers: WorkerHealth, is_running: bool = True, is_draining: bool = False) -> Health:
    workers = [worker("w0", "thinker", WorkerState.READY), *talkers]
    return assess(STAGES, workers, is_running=is_running, is_draining=is_draining)


def test_all_ready_is_ready() -> None:
    health = judge(worker("w1", "talker", WorkerState.READY))
    assert health.is_live
    assert health.is_ready
    assert health.stage("talker").state == "ready"


def test_one_replica_of_two_is_degraded_but_ready() -> None:
    health = judge(worker("w1", "talker", WorkerState.READY), worker("w2", "talker", WorkerState.WAITING))
    assert health.is_ready
    assert health.stage("talker").state == "degraded"
    assert health.stage("talker").num_restarting == 1


def test_a_stage_that_restarts_is_live_and_not_ready() -> None:
    for state in (WorkerState.STARTING, WorkerState.WIRING, WorkerState.WAITING):
        health = judge(worker("w1", "talker", state))
        assert (health.is_live, health.is_ready, health.stage("talker").state) == (True, False, "restarting")


def test_a_stage_that_will_not_come_back_is_dead() -> None:
    health = judge(worker("w1", "talker", WorkerState.FAILED))
    assert (health.is_live, health.is_ready, health.stage("talker").state) == (False, False, "down")


def test_a_process_that_died_silently_is_not_ready_though_nobody_noticed() -> None:
    health = judge(worker("w1", "talker", WorkerState.READY, is_alive=False))
    assert (health.is_live, health.is_ready, health.stage("talker").state) == (True, False, "restarting")


def test_draining_and_stopped_are_not_ready() -> None:
    ready = worker("w1", "talker", WorkerState.READY)
    assert not judge(ready, is_draining=True).is_ready
    assert judge(ready, is_draining=True).is_live
    assert not judge(ready, is_running=False).is_live
