"""On a GPU: captured decode steps against plain ones, and the Triton kernels against the torch twin."""

from dataclasses import replace

import pytest
import torch

from antiphon.config.checkpoint_files import shipped_model_config
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.settings import ThinkerSettings
from antiphon.engine.thinker_engine import ThinkerEngine
from antiphon.engine.thinker_messages import ThinkerJob, ThinkerPiece, ThinkerSampling
from antiphon.layers.paged_attention import PagedAttend
from antiphon.layers.paged_batch import PagedBatch
from antiphon.layers.rope import Rope
from antiphon.models.dummy import dummy_value
from antiphon.models.placing import assign, build_empty, finish
from antiphon.models.thinker.thinker import Thinker

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"),
]

SETTINGS = ThinkerSettings(max_batched_tokens=256, max_model_len=512, kv_cache_blocks=320, max_num_seqs=16)
SAMPLED = ThinkerSampling(max_tokens=40, temperature=0.8, top_p=0.9, top_k=50, repetition_penalty=1.1)
SAMPLINGS = (
    ThinkerSampling(max_tokens=40),
    replace(SAMPLED, seed=7),
    replace(SAMPLED, seed=8, top_k=0, min_p=0.01),
    ThinkerSampling(max_tokens=30, frequency_penalty=0.5),
)


def make_thinker(dtype: torch.dtype) -> Thinker:
    real = shipped_model_config()
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_layers": 1, "num_heads": 2}
    config = replace(
        real,
        vocab_size=2000,
        llm=replace(
            real.llm, hidden_size=256, intermediate_size=512, num_layers=3, num_heads=8, num_kv_heads=2, head_dim=64
        ),
        vision=replace(real.vision, **sizes, table_side=8),
        audio=replace(real.audio, **sizes),
    )
    device = torch.device("cuda")
    model = build_empty(lambda: Thinker(config))
    generator = torch.Generator(device).manual_seed(0)
    for name, empty in list(model.named_parameters()):
        assign(model, name, dummy_value(name, tuple(empty.shape), device, dtype, generator))
    return finish(model, device)


def answer(
    dtype: torch.dtype, num_jobs: int, **switches: bool
) -> tuple[dict[str, list[int]], dict[str, torch.Tensor], Counters]:
    """Ids and hidden rows of *num_jobs* requests, whatever way they are run."""
    device, counters = torch.device("cuda"), Counters()
    engine = ThinkerEngine(
        make_thinker(dtype),
        replace(SETTINGS, **switches),  # type: ignore[arg-type]
        device=device,
        dtype=dtype,
        counters=counters,
        stream=DeviceStream(device),
        clock=lambda: 0.0,
    )
    engine.warm_up(lambda text: None)
    ids: dict[str, list[int]] = {}
    rows: dict[str, list[torch.Tensor]] = {}
    for index in range(num_jobs):
        prompt = tuple(range(index, index + 20 + 23 * index))
        engine.admit(
            ThinkerJob(seq_id=f"s{index}", ids=prompt, sampling=SAMPLINGS[index % len(SAMPLINGS)], wants_hidden=True)
        )
    while engine.has_work:
        engine.launch()
        for output in engine.collect():
            ids.setdefault(output.seq_id, []).extend(output.new_ids)
            if output.hidden is not None:
                assert output.ready is not None
                output.ready.wait()
                rows.setdefault(output.seq_id, []).append(output.hidden)
    assert engine.snapshot()["blocks_used"] == 0
    return ids, {name: torch.cat(parts) for name, parts in rows.items()}, counters


@pytest.mark.parametrize("num_jobs", [1, 3, 16])
@pytest.mark.parametrize("switch", ["use_graphs", "use_triton", "use_run_ahead"])
def test_a_switched_off_optimisation_gives_the_same_tokens(num_jobs: int, switch: str) -> None:
    ids, rows, counters = answer(torch.float32, num_jobs)
    assert counters.used["thinker_graph"] > 0
    assert counters.used["thinker_run_ahead"] > 0
    assert not counters.fell_back
    slow_ids, slow_rows, slow_counters = answer(torch.float32, num_jobs, **{switch: False})
    assert slow_ids == ids
    assert (slow_counters.used["thinker_graph"] == 0) == (switch != "use_run_ahead")
    for name, wanted in slow_rows.items():
        torch.testing.assert_close(rows[name], wanted, atol=1e-3, rtol=1e-3)


def test_a_graph_of_one_row_is_the_plain_step_in_bfloat16() -> None:
    ids, rows, _ = answer(torch.bfloat16, 1)
    plain_ids, plain_rows, _ = answer(torch.bfloat16, 1, use_graphs=False)
    assert ids == plain_ids
    assert torch.equal(rows["s0"], plain_rows["s0"])


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.bfloat16, 3e-2)])
@pytest.mark.parametrize(
    ("decodes", "extends"),
    [([1, 300, 4000], []), ([], [(300, 300), (1500, 1), (700, 37)]), ([900, 17], [(129, 128), (2, 2)])],
    ids=["decode", "extend", "mixed"],
)
def test_the_kernels_agree_with_the_twin_at_real_size(
    dtype: torch.dtype, tolerance: float, decodes: list[int], extends: list[tuple[int, int]]
) -> None:
    torch.manual_seed(0)
    heads, kv_heads, dim, size = 32, 8, 128, 16
    rows = [(context, 1) for context in decodes] + extends
    needed = [-(-context // size) for context, _ in rows]
    tables = torch.zeros(len(rows), max(needed), dtype=torch.int32)
    pages = torch.randn(1, 2, sum(needed), size, kv_heads, dim).to("cuda", dtype)
    kv_index, positions = [], []
    for row, ((context, new), blocks) in enumerate(zip(rows, torch.randperm(sum(needed)).split(needed), strict=True)):
        tables[row, : len(blocks)] = blocks
        places = torch.arange(context)[-new:]
        kv_index.append(blocks[places // size] * size + places % size)
        positions.append(places)
    cos, sin = Rope(dim, 1e6).cos_sin(torch.cat(positions).cuda())
    batch = PagedBatch(
        kv_index=torch.cat(kv_index).cuda(),
        cos=cos,
        sin=sin,
        query_start=torch.tensor([0, *(new for _, new in rows)]).cumsum(0).to("cuda", torch.int32),
        context_lens=torch.tensor([context for context, _ in rows], dtype=torch.int32).cuda(),
        tables=tables.cuda(),
        num_decodes=len(decodes),
        max_query_len=max((new for _, new in extends), default=1),
    )
    qkv = torch.randn(len(batch.kv_index), (heads + 2 * kv_heads) * dim).to("cuda", dtype)
    norms = torch.rand(2, dim).to("cuda", dtype) + 0.5
    twin_pages = pages.clone()
    wanted = PagedAttend(twin_pages, batch, eps=1e-6, use_kernels=False)(0, qkv, norms[0], norms[1])
    out = PagedAttend(pages, batch, eps=1e-6, use_kernels=True)(0, qkv, norms[0], norms[1])
    torch.testing.assert_close(out, wanted, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(pages, twin_pages, atol=tolerance, rtol=tolerance)


def test_a_spilled_sequence_comes_back_unchanged() -> None:
    device = torch.device("cuda")

    def second_turn(num_blocks: int) -> tuple[list[int], float]:
        engine = ThinkerEngine(
            make_thinker(torch.float32),
            replace(SETTINGS, kv_cache_blocks=num_blocks, host_spill_blocks=64, max_model_len=480),
            device=device,
            dtype=torch.float32,
            counters=Counters(),
            stream=DeviceStream(device),
            clock=lambda: 0.0,
        )
        ids: list[int] = []

        def run() -> None:
            while engine.has_work:
                engine.launch()
                ids.extend(token for output in engine.collect() if output.seq_id == "a" for token in output.new_ids)

        rule = ThinkerSampling(max_tokens=10)
        engine.admit(ThinkerJob(seq_id="a", ids=tuple(range(200)), sampling=rule, is_resumable=True))
        run()
        engine.admit(ThinkerJob(seq_id="b", ids=tuple(range(440)), sampling=rule))
        run()
        spilled = engine.snapshot()["num_spilled"]
        engine.extend("a", ThinkerPiece(ids=(5, 6)))
        run()
        return ids, spilled

    roomy, none_spilled = second_turn(320)
    tight, one_spilled = second_turn(30)
    assert (none_spilled, one_spilled) == (0, 1)
    assert tight == roomy
