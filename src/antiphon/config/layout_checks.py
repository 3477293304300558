"""What no single value shows: devices, shares of a device, connectors, chunking (deploy specification, section 11).

All of it is decided before any weights load.
"""

from collections import defaultdict
from collections.abc import Iterator

from antiphon.config.deploy import PIPELINES, THINKER_KEYS, ZEROMQ, ZEROMQ_KEYS, DeployConfig, StageConfig
from antiphon.config.origin import Tree, branch, plain, whereabouts
from antiphon.config.problems import Problem, hint

CONNECTORS = ("SharedMemoryConnector", ZEROMQ)
_REFERENCE_ONLY = (
    *("MooncakeStoreConnector", "MooncakeConnector", "MooncakeTransferEngineConnector"),
    *("MoriTransferEngineConnector", "NixlConnector", "YuanrongConnector", "YuanrongTransferEngineConnector"),
)
_SHARE_SLACK = 1e-6  # shares are decimal fractions; their sum is not exact


def check_stage_ids(merged: Tree, num_stages: int, where: str) -> list[Problem]:
    """Ids must run from 0 and stand in that order; a pipeline's code fixes how many there are."""
    ids = list(branch(merged, "stages"))
    expected = [str(index) for index in range(num_stages)]
    if not ids:
        return [Problem(where, "stages are missing; write `stages:` or build on a shipped file with `base_config:`")]
    if ids != expected:
        found, needed = ", ".join(ids), ", ".join(expected)
        message = f"stage ids must be {needed} in this order, found {found}"
        return [Problem(whereabouts(merged, ("stages", ids[-1]), where), message)]
    return []


def check_overlay_ids(platforms: Tree, num_stages: int, where: str) -> list[Problem]:
    """Overlays of other platforms are checked too, so a mistake does not wait for that machine."""
    return [
        Problem(
            whereabouts(platforms, (name, "stages", stage_id), where),
            f"platforms.{name}: there is no stage {stage_id}; stage ids are 0 to {num_stages - 1}",
        )
        for name in platforms
        for stage_id in branch(platforms, name, "stages")
        if int(stage_id) >= num_stages
    ]


def check_merged(merged: Tree, edges: tuple[tuple[int, int], ...], where: str) -> list[Problem]:
    """Keys written where their stage has no use for them, and edges the pipeline does not have."""
    problems = []
    for stage_id in branch(merged, "stages"):
        written = plain(branch(merged, "stages", stage_id))
        for key in sorted(THINKER_KEYS & written.keys()):
            if stage_id != "0" and written[key] is not False:
                message = f"stages.{stage_id}.{key} is a setting of stage 0 (thinker) only; move it there"
                problems.append(Problem(whereabouts(merged, ("stages", stage_id, key), where), message))
    for name in branch(merged, "connectors"):
        connector = branch(merged, "connectors", name)
        kind = plain(connector).get("name")
        for key in ZEROMQ_KEYS if kind != ZEROMQ else ():
            if key in plain(branch(connector, "extra")):
                place = whereabouts(merged, ("connectors", name, "extra", key), where)
                problems.append(Problem(place, f"connectors.{name}.extra.{key} is a setting of {ZEROMQ} only"))
    listed = plain(merged).get("edges")
    # The schema has checked the items.
    if isinstance(listed, list) and sorted((item["from"], item["to"]) for item in listed) != sorted(edges):
        needed = ", ".join(f"{{from: {producer}, to: {consumer}}}" for producer, consumer in edges)
        message = f"edges are fixed by the pipeline: {needed}; leave the list out"
        problems.append(Problem(whereabouts(merged, ("edges",), where), message))
    return problems


def check_layout(config: DeployConfig, where: str) -> list[Problem]:
    """Everything about the resolved values."""
    return [Problem(where, message) for message in _messages(config)]


def check_visible(config: DeployConfig, num_visible: int) -> list[Problem]:
    """Devices are indices into the visible set."""
    return [
        Problem(
            f"stage {stage.stage_id}",
            f"device {device} is not visible: {num_visible} device(s) are; choose others with --stage-overrides",
        )
        for stage in config.stages
        for device in stage.devices
        if device >= num_visible
    ]


def _messages(config: DeployConfig) -> Iterator[str]:
    if config.session_mode == "duplex" and not PIPELINES[config.pipeline].has_duplex:
        yield f"session_mode is duplex, which pipeline {config.pipeline} does not have; use turn"
    for stage in config.stages:
        yield from _stage_messages(stage)
    if all(_pool_fits(stage) for stage in config.stages):
        yield from _share_messages(config)
    yield from _connector_messages(config)
    yield from _chunk_messages(config)
    switches = config.optimizations
    if switches.cfm_tangent_stop >= switches.cfm_steps:
        yield (
            f"optimizations.cfm_tangent_stop is {switches.cfm_tangent_stop}, "
            f"which must be below cfm_steps ({switches.cfm_steps}); 0 turns it off"
        )


def _stage_messages(stage: StageConfig) -> Iterator[str]:
    name = f"stage {stage.stage_id} ({stage.name})"
    if stage.max_num_batched_tokens < stage.max_num_seqs:
        yield (
            f"{name}: max_num_batched_tokens ({stage.max_num_batched_tokens}) is below "
            f"max_num_seqs ({stage.max_num_seqs}); raise the first or lower the second"
        )
    if stage.tensor_parallel_size > 1 and stage.stage_id != 0:
        yield f"{name}: tensor_parallel_size is {stage.tensor_parallel_size}; only stage 0 can be split, use 1"
    if not _pool_fits(stage):
        size, count = stage.tensor_parallel_size, stage.num_replicas
        pool = f" or {size * count} (a pool for {count} replicas)" if count > 1 else ""
        yield (
            f"{name}: devices lists {len(stage.devices)}, but {size} (tensor_parallel_size){pool} are needed; "
            f'change it, for example with --stage-overrides \'{{"{stage.stage_id}": {{"devices": "…"}}}}\''
        )


def _pool_fits(stage: StageConfig) -> bool:
    size = stage.tensor_parallel_size
    return stage.num_replicas == 0 or len(stage.devices) in (size, size * stage.num_replicas)


def _share_messages(config: DeployConfig) -> Iterator[str]:
    users: dict[int, list[tuple[StageConfig, int]]] = defaultdict(list)
    for stage in config.stages:
        for replica, devices in enumerate(stage.replica_devices()):
            for device in devices:
                users[device].append((stage, replica))
    total = {device: sum(stage.gpu_memory_utilization for stage, _ in users[device]) for device in users}
    for device in sorted(users):
        if total[device] <= 1 + _SHARE_SLACK:
            continue
        parts = ", ".join(
            f"stage {stage.stage_id} {stage.name}"
            f"{f' replica {replica}' if stage.num_replicas > 1 else ''} {stage.gpu_memory_utilization:.2f}"
            for stage, replica in users[device]
        )
        last = max(users[device], key=lambda user: user[0].stage_id)[0]
        roomiest = min(total, key=lambda other: (total[other], other))
        room = 1 - total[roomiest]
        move = f", or move stage {last.stage_id} to device {roomiest}, which has {room:.2f} left" if room > 0 else ""
        yield (
            f"device {device}: the shares add up to {total[device]:.2f}, more than the whole ({parts}); lower their "
            f"gpu_memory_utilization to 1 in total{move} (--stage-overrides does both)"
        )


def _connector_messages(config: DeployConfig) -> Iterator[str]:
    for name, connector in config.connectors.items():
        if connector.name in _REFERENCE_ONLY:
            yield (
                f"connector {name}: {connector.name} is vLLM-Omni's and not built here; "
                f"use one of {', '.join(CONNECTORS)}"
            )
        elif connector.name not in CONNECTORS:
            yield f"connector {name}: {connector.name!r} is not registered; {hint(connector.name, CONNECTORS)}"
        extra = connector.extra
        if 0 < extra.code2wav_initial_batch_size < extra.code2wav_min_batch_size:
            yield (
                f"connector {name}: code2wav_initial_batch_size ({extra.code2wav_initial_batch_size}) must be 0 or "
                f"at least code2wav_min_batch_size ({extra.code2wav_min_batch_size})"
            )
    for stage in config.stages:
        ends = [*(("output", name) for name in stage.output_connectors.values())]
        ends += [("input", name) for name in stage.input_connectors.values()]
        for side, name in ends:
            if name not in config.connectors:
                defined = hint(name, config.connectors) if config.connectors else "`connectors:` is empty"
                yield f"stage {stage.stage_id}: {side}_connectors names {name!r}, which is not defined; {defined}"


def _chunk_messages(config: DeployConfig) -> Iterator[str]:
    shape = PIPELINES[config.pipeline]
    for producer, consumer in shape.edges:
        upper, lower = config.stages[producer], config.stages[consumer]
        if upper.async_chunk != lower.async_chunk:
            yield (
                f"async_chunk is {_yes(upper.async_chunk)} in stage {producer} and {_yes(lower.async_chunk)} in stage "
                f"{consumer}; both ends of an edge must agree"
            )
    for stage in config.stages:
        for consumer in stage.output_connectors:
            if (stage.stage_id, consumer) not in shape.edges:
                yield f"stage {stage.stage_id}: output_connectors: {config.pipeline} has no edge to stage {consumer}"
        for producer in stage.input_connectors:
            if (producer, stage.stage_id) not in shape.edges:
                yield f"stage {stage.stage_id}: input_connectors: {config.pipeline} has no edge from stage {producer}"
    for producer, consumer in shape.edges:
        sent = config.stages[producer].output_connectors.get(consumer)
        received = config.stages[consumer].input_connectors.get(producer)
        if (producer, consumer) == shape.chunk_edge and config.stages[producer].async_chunk and sent is None:
            yield (
                f"async_chunk is on but stage {producer} produces no chunks: give it "
                f"output_connectors {{to_stage_{consumer}: NAME}}, or turn async_chunk off"
            )
        elif sent != received:
            yield (
                f"edge {producer} to {consumer}: stage {producer} sends through {sent or 'nothing'}, stage {consumer} "
                f"receives through {received or 'nothing'}; both must name the same connector"
            )


def _yes(value: bool) -> str:
    return "true" if value else "false"
