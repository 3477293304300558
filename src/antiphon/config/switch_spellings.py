"""vLLM-Omni's spellings of things that are switches here, translated layer by layer.

Each layer's spelling becomes that layer's switch, so precedence between layers decides as for any other value. When
all layers are merged the switches in force are written back to the old spellings: nothing has two values.
"""

from antiphon.config.optimizations import OptimizationsConfig
from antiphon.config.origin import Origin, Sourced, Tree, branch, grow

GRAPH_OF_STAGE = {"0": "thinker_graph", "1": "talker_graph"}  # stage 2 is always "eager" in their files: see below
_OF_EXTRA = {
    "enable_hift_graph": ("hift_graph",),
    "enable_cfm_graph": ("cfm_graph",),
    "token2wav_n_timesteps": ("cfm_steps",),
    "codec_chunk_frames": ("chunk_frames", "first_chunk_frames"),  # they know one length, also for the first chunk
}


def translate(layer: Tree) -> None:
    """Add the switches a layer means to its `optimizations`, in place; what stands there already wins."""
    found: dict[str, Sourced] = {}
    for stage_id, switch in GRAPH_OF_STAGE.items():
        stage = branch(layer, "stages", stage_id)
        mode = branch(stage, "compilation_config").get("cudagraph_mode")
        if isinstance(mode, Sourced) and mode.value is not None:  # which kind of graph is captured is ours to decide
            found[switch] = Sourced(mode.value != "NONE", mode.origin)
        eager = stage.get("enforce_eager")
        if isinstance(eager, Sourced) and (switch not in found or eager.value is True):
            found[switch] = Sourced(None if eager.value is None else not eager.value, eager.origin)
    for name in branch(layer, "connectors"):
        extra = branch(layer, "connectors", name, "extra")
        for key, switches in _OF_EXTRA.items():
            node = extra.get(key)
            if isinstance(node, Sourced):
                found.update(dict.fromkeys(switches, node))
        bf16 = extra.get("code2wav_bfloat16_attention_cache")
        if isinstance(bf16, Sourced):
            precision = None if bf16.value is None else "bf16" if bf16.value else "fp32"
            found["cache_precision"] = Sourced(precision, bf16.origin)
    if found:
        section = grow(layer, "optimizations")
        for switch, node in found.items():
            section.setdefault(switch, node)


def write_back(merged: Tree, switches: OptimizationsConfig, origins: dict[str, Origin], default: Origin) -> None:
    """Give the old spellings the values in force. Stage 2 keeps its `enforce_eager`: there it never had a meaning."""

    def leaf(value: object, switch: str) -> Sourced:
        return Sourced(value, origins.get(f"optimizations.{switch}", default))

    grow(merged, "stages", "0")["enforce_eager"] = leaf(not switches.thinker_graph, "thinker_graph")
    grow(merged, "stages", "1")["enforce_eager"] = leaf(not switches.talker_graph, "talker_graph")
    for name in branch(merged, "connectors"):
        extra = grow(merged, "connectors", name, "extra")
        extra["enable_hift_graph"] = leaf(switches.hift_graph, "hift_graph")
        extra["enable_cfm_graph"] = leaf(switches.cfm_graph, "cfm_graph")
        extra["token2wav_n_timesteps"] = leaf(switches.cfm_steps, "cfm_steps")
        extra["codec_chunk_frames"] = leaf(switches.chunk_frames, "chunk_frames")
        extra["code2wav_bfloat16_attention_cache"] = leaf(switches.cache_precision == "bf16", "cache_precision")
