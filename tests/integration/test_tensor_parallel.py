"""A Thinker cut over two gloo processes draws the tokens of a single one. The ranks run this file as a script."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist

from antiphon.config.checkpoint_files import shipped_model_config
from antiphon.engine.context_window import Cut
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.duplex_decision import DecisionIds, DecisionSampling
from antiphon.engine.settings import ThinkerSettings
from antiphon.engine.thinker_engine import ThinkerEngine
from antiphon.engine.thinker_follower import ThinkerFollower
from antiphon.engine.thinker_messages import DuplexRule, MediaRows, ThinkerJob, ThinkerPiece, ThinkerSampling
from antiphon.layers.parallel import ALONE, ParallelGroup
from antiphon.models.thinker.thinker import Thinker

TIMEOUT_S = 120
CPU = torch.device("cpu")
SETTINGS = ThinkerSettings(
    max_batched_tokens=40, max_model_len=128, kv_cache_blocks=14, host_spill_blocks=20, max_num_seqs=4
)
DUPLEX = DuplexRule(
    sampling=DecisionSampling(temperature=1.2, top_k=40, top_p=0.95),
    ids=DecisionIds(chunk_eos=290, turn_eos=291, tokenizer_eos=292, forbidden=(293, 294)),
    listen_id=295,
    tts_bos_id=296,
    chunk_tts_eos_id=297,
    seed=9,
)
Answers = dict[str, list[int]]


def make_thinker() -> Thinker:
    real = shipped_model_config()
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_layers": 1, "num_heads": 2}
    config = replace(
        real,
        vocab_size=301,  # odd, so that the head does not divide
        llm=replace(
            real.llm, hidden_size=32, intermediate_size=48, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=16
        ),
        vision=replace(real.vision, **sizes, table_side=8),
        audio=replace(real.audio, **sizes),
    )
    torch.manual_seed(1)
    model = Thinker(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.25)
    return model.eval().requires_grad_(False)


def answer(group: ParallelGroup) -> Answers:
    """Run a few sequences: chunks, media, preemption, spilling, sampling, several turns."""
    engine = ThinkerEngine(
        make_thinker(),
        SETTINGS,
        device=CPU,
        dtype=torch.float32,
        counters=Counters(),
        stream=DeviceStream(CPU),
        clock=lambda: 0.0,
        group=group,
    )
    engine.warm_up(lambda text: None)
    rows = torch.randn(6, 32, generator=torch.Generator().manual_seed(0))
    answers: Answers = {}

    def run() -> None:
        while engine.has_work:
            engine.launch()
            engine.launch()
            for output in engine.collect():
                answers.setdefault(output.seq_id, []).extend(output.new_ids)

    sampled = ThinkerSampling(max_tokens=40, temperature=0.8, top_p=0.9, top_k=50, seed=4, repetition_penalty=1.1)
    engine.admit(ThinkerJob(seq_id="kept", ids=tuple(range(30)), sampling=sampled, is_resumable=True))
    run()
    for index in range(4):
        engine.admit(
            ThinkerJob(
                seq_id=f"s{index}",
                ids=tuple(range(index, 20 + index)),
                media=(MediaRows(10, rows),) if index == 2 else (),
                sampling=ThinkerSampling(max_tokens=44) if index % 2 else replace(sampled, seed=index),
                wants_hidden=index == 3,
            )
        )
    run()
    assert engine.snapshot()["num_spilled"] == 1
    assert engine.snapshot()["preemptions"] > 0
    engine.extend("kept", ThinkerPiece(ids=(1, 2, 3)))
    engine.close_input("kept")
    engine.admit(ThinkerJob(seq_id="live", ids=tuple(range(20, 40)), duplex=DUPLEX, is_resumable=True))
    engine.admit(ThinkerJob(seq_id="beside", ids=(7, 8), sampling=sampled))
    run()
    length = 20 + len(answers["live"])
    engine.cut("live", Cut((0, 5), (3, 4), (12, length), length - 5, ()))
    engine.extend("live", ThinkerPiece(ids=(5, 6)))
    engine.close_input("live")
    run()
    engine.close()
    return answers


def serve(rank: int, meeting: str, out: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    group = ParallelGroup(rank=rank, size=2)
    if rank == 0:
        Path(out).write_text(json.dumps(answer(group)), encoding="utf-8")
    else:
        follower = ThinkerFollower(
            make_thinker(),
            SETTINGS,
            device=CPU,
            dtype=torch.float32,
            counters=Counters(),
            stream=DeviceStream(CPU),
            group=group,
        )
        follower.warm_up(lambda text: None)
        follower.serve()
    dist.destroy_process_group()


def test_two_ranks_draw_what_one_draws(tmp_path: Path) -> None:
    meeting, out = tmp_path / "meeting", tmp_path / "answers.json"
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__, str(rank), str(meeting), str(out)], stderr=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    try:
        wanted = answer(ALONE)
        for rank in ranks:
            _, errors = rank.communicate(timeout=TIMEOUT_S)
            assert rank.returncode == 0, errors
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()
    assert json.loads(out.read_text(encoding="utf-8")) == wanted
    assert len(wanted) == 7
    assert len(wanted["live"]) > 4


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2], sys.argv[3])
