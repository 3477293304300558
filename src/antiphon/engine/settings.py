"""What each engine is told at its construction: capacities and switches, validated by the deploy configuration."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ThinkerSettings:
    max_num_seqs: int = 16  # rows that decode together
    max_batched_tokens: int = 4096  # tokens of one prefill launch
    max_model_len: int = 40_960
    block_size: int = 16
    kv_cache_blocks: int = 4096
    host_spill_blocks: int = 0  # pinned host memory for parked sequences; 0 switches spilling off
    use_prefix_cache: bool = False
    use_graphs: bool = True
    use_run_ahead: bool = True  # launch a decode step before the tokens of the last one are read
    use_triton: bool = True  # where a device supports it; the torch twin otherwise
    graph_batches: tuple[int, ...] = (1, 2, 4, 8, 16)
    early_stop: bool = True  # stop at the speech boundary
    # Live sessions that stream audio in, each with a cache of 142 MB in bfloat16. 0: duplex decisions run uncaptured.
    num_audio_streams: int = 0
    use_audio_batch: bool = True  # encode the units of several streams in one launch

    @property
    def session_positions(self) -> int:
        """Positions that each live session can keep on the device when all of them are there."""
        held = self.kv_cache_blocks * self.block_size // max(1, self.num_audio_streams)
        return min(self.max_model_len, held)


@dataclass(frozen=True, kw_only=True)
class TalkerSettings:
    num_slots: int = 16
    max_positions: int = 4096
    max_condition_tokens: int = 4096  # of one prefill launch
    use_graphs: bool = True
    use_triton: bool = True
    use_fused_products: bool = True  # norm, product and activation in one kernel; needs `use_triton`
    use_step_window: bool = True
    windows: tuple[int, ...] = (1, 2, 4, 8, 25, 28)
    graph_batches: tuple[int, ...] = (1, 2, 4, 8, 16)
    first_chunk_codes: int = 28  # 25 and the vocoder's look-ahead
    chunk_codes: int = 25
    window_slack: int = 3  # steps that a window of several rows may run past the nearest boundary of one
    max_top_k: int = 25  # the largest top-k that captured steps sample; larger ones run plainly
    prefill_tokens: tuple[int, ...] = (16, 32, 64, 128, 256)  # captured sizes of a condition launch
    max_queued_seqs: int = 256
    max_queued_conditions: int = 256  # of one sequence


@dataclass(frozen=True, kw_only=True)
class Code2WavSettings:
    num_slots: int = 16
    num_steps: int = 10
    use_graphs: bool = True
    use_triton: bool = True  # for the flow's ODE, where a device supports it; the torch twin otherwise
    use_tf32: bool = False  # matrix products of the flow and the vocoder in TF32; off is the reference's arithmetic
    use_hift_graph: bool = True  # captured graphs of the vocoder; `use_graphs` is about the flow
    capture_tails: bool = (
        True  # also capture the vocoder for a turn's short first and last chunks, one stream at a time
    )
    graph_batches: tuple[int, ...] = (1, 2, 4, 8, 16)
    chunk_codes: int = 25  # codec ids voiced by one chunk; its look-ahead comes on top
    max_waiting_chunks: int = 256  # of one stream
    max_waiting_streams: int = 64  # admitted, but without a slot
    max_launches: int = 2  # under way at once
    max_voices: int = 64
    max_voice_bytes: int = 16 << 30  # of device memory; voices in use always stay
    # Two sizes of slots: a float32 cache entry of the real model takes 1.3 MB of every slot.
    max_prompt_frames: int = 850  # 17 s of reference voice
    short_prompt_frames: int = 354  # 7 s: voices that fit here use `num_slots`, longer ones `num_long_slots`
    num_long_slots: int = 4  # 0: longer voices are refused
