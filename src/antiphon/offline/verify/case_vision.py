"""Replays the recorded vision stages: position ids, SigLIP, resampler."""

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from antiphon.models.thinker.siglip import Grid, pad_rows, position_ids
from antiphon.offline.verify.checks import CaseChecks
from antiphon.offline.verify.context import VerifyContext
from antiphon.offline.verify.golden import image_pattern
from antiphon.prompt.images import prepare_image

# Rows that the set keeps of a long tensor whose name does not say so (its manifest describes them).
_EVERY = {"patch_plus_pos": 25, "vpm_out": 9, "resampler_out": 1}
_STAGE = re.compile(r"(patch_plus_pos|layer0_out|vpm_out|resampler_out)(?:_every(\d+))?(?:\.(\d+))?")


def _replay_position_ids(context: VerifyContext, checks: CaseChecks) -> None:
    side = context.model.config.vision.table_side
    for label, recorded in context.golden.json(checks.file).items():
        num_patches = int(label)
        grids: dict[str, Grid] = {"tgt_n_by_1": (num_patches, 1), "tgt_1_by_n": (1, num_patches)}
        for name, ids in recorded.items():
            if name in grids:
                checks.equal(f"{label}.{name}", position_ids(grids[name], side).tolist(), ids)
            else:
                checks.unknown(f"{label}.{name}")


def _images(context: VerifyContext, name: str) -> tuple[list[Tensor], list[Grid]]:
    """Strips and grids of the pictures that `meta.json` lists for one recorded batch."""
    strips: list[Tensor] = []
    grids: list[Grid] = []
    for entry in context.golden.json("02_vision/meta.json")[name]["images"]:
        width, height = entry["size"]
        picture = image_pattern(width, height, entry["seed"])
        prepared = prepare_image(picture, context.model.image_config, entry["max_slice_nums"])
        strips += [torch.from_numpy(strip) for strip in prepared.strips]
        grids += prepared.patch_grids
    return strips, grids


def _replay_meta(context: VerifyContext, checks: CaseChecks) -> None:
    for name, recorded in context.golden.json(checks.file).items():
        _, grids = _images(context, name)
        checks.equal(f"{name}.lengths", [rows * columns for rows, columns in grids], recorded["lengths"])
        for extra in set(recorded) - {"images", "lengths"}:
            checks.unknown(f"{name}.{extra}")


def _replay_batch(context: VerifyContext, checks: CaseChecks) -> None:
    name = checks.file.rsplit("/", 1)[-1].removesuffix(".safetensors")
    if checks.has("x"):
        _replay_resampler(context, checks)
    elif checks.has("input_u8.0"):
        grids = [(int(rows), int(columns)) for rows, columns in checks.tensor("tgt_sizes")]
        strips = [(checks.tensor(f"input_u8.{i}").float() / 255 - 0.5) / 0.5 for i in range(len(grids))]
        _compare_stages(context, checks, strips, grids)
    elif name in context.golden.json("02_vision/meta.json"):
        strips, grids = _images(context, name)
        checks.close("tgt_sizes", torch.tensor(grids))
        _compare_stages(context, checks, strips, grids)
    else:
        checks.unknown(name)


def _compare_stages(
    context: VerifyContext, checks: CaseChecks, strips: Sequence[Tensor], grids: Sequence[Grid]
) -> None:
    thinker = context.model.thinker
    patches = [thinker.vpm.embeddings(strip, grid) for strip, grid in zip(strips, grids, strict=True)]
    x, valid = pad_rows(patches)
    first_layer: Any = thinker.vpm.encoder.layers[0]
    layer0 = first_layer(x, None if valid is None else valid[:, None, None, :])
    features, _ = thinker.vpm(strips, grids)
    rows = torch.stack(thinker.encode_images(strips, grids))
    stages = {"layer0_out": layer0, "vpm_out": features}
    for name in checks.names():
        match = _STAGE.fullmatch(name)
        if match is None:
            continue  # an input; what nobody reads is reported at the end
        stage, every, index = match.groups()
        if stage == "resampler_out":
            checks.close(name, rows[:, :: int(every or 1)])
            continue
        image = int(index)
        ours = patches[image] if stage == "patch_plus_pos" else stages[stage][image, : len(patches[image])]
        step = int(every) if every else _step(stage, len(ours), len(checks.tensor(name)))
        checks.close(name, ours[::step])


def _step(stage: str, num_rows: int, num_recorded: int) -> int:
    return 1 if num_rows == num_recorded else _EVERY[stage]


def _replay_resampler(context: VerifyContext, checks: CaseChecks) -> None:
    x = checks.tensor("x").to(context.device)
    grids = [(int(rows), int(columns)) for rows, columns in checks.tensor("tgt_sizes")]
    lengths = torch.tensor([rows * columns for rows, columns in grids], device=context.device)
    valid = torch.arange(x.shape[1], device=context.device) < lengths[:, None]
    checks.close("y", context.model.thinker.resampler(x, valid, grids))


REPLAYS = (
    ("02_vision/position_ids.json", _replay_position_ids),
    ("02_vision/meta.json", _replay_meta),
    ("02_vision/*.safetensors", _replay_batch),
)
