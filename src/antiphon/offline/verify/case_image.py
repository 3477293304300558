"""Replays the image cases: pictures, slice grids, sizes, placeholders and pixels."""

import re
from hashlib import sha256
from math import isclose
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from antiphon.audio.image import load_image
from antiphon.config.checkpoint import ImageConfig
from antiphon.offline.verify.checks import CaseChecks
from antiphon.offline.verify.context import VerifyContext
from antiphon.offline.verify.golden import image_pattern
from antiphon.offline.verify.prompt_inputs import recorded_image_config
from antiphon.prompt.images import PreparedImage, Strip, choose_grid, fit_size, prepare_image, refined_size
from antiphon.prompt.placeholders import image_placeholder

_CASES = "01_image/cases.json"
_CASE_KEYS = {
    *("key", "image", "max_slice_nums", "grid", "upstream_error", "tgt_sizes", "num_slices", "image_sizes"),
    *("placeholder", "placeholder_with_id", "slices"),
}
_SIZE_KEYS = {"size", "max_slice_nums", "grid", "best_resize_up", "best_resize", "refine"}
_SLICE_KEYS = {"shape", "sha256_f32", "sha256_u8", "mean", "std", "first", "last"}


def _picture(context: VerifyContext, image: dict[str, Any]) -> Image.Image:
    if image["file"] is not None:
        return load_image(context.golden.folder / "01_image" / image["file"])
    return image_pattern(image["width"], image["height"], image["seed"])


def _prepared(context: VerifyContext, case: dict[str, Any]) -> PreparedImage:
    return context.once(
        f"case_image.{case['key']}",
        lambda: prepare_image(_picture(context, case["image"]), recorded_image_config(context), case["max_slice_nums"]),
    )


def _check_cases(context: VerifyContext, checks: CaseChecks) -> None:
    config = recorded_image_config(context)
    for case in context.golden.json(_CASES)["cases"]:
        key = case["key"]
        if not set(case) <= _CASE_KEYS:
            checks.unknown(f"{key}: {sorted(set(case) - _CASE_KEYS)}")
        picture = _picture(context, case["image"])
        checks.equal(f"{key}.rgb", sha256(picture.tobytes()).hexdigest(), case["image"]["rgb_sha256"])
        checks.equal(f"{key}.size", picture.size, (case["image"]["width"], case["image"]["height"]))
        prepared = _prepared(context, case)
        checks.equal(f"{key}.grid", prepared.grid, _pair(case["grid"]))
        _check_placeholders(checks, case, prepared, config)
        if "upstream_error" in case:
            # The reference takes one side of pictures of height 1 or 3 for the channels and fails. They are ordinary
            # pictures here, so all that can be compared is that something usable comes out.
            usable = all(strip.size and np.isfinite(strip).all() for strip in prepared.strips)
            checks.equal(f"{key}.usable", usable, True)
            continue
        checks.equal(f"{key}.tgt_sizes", [list(grid) for grid in prepared.patch_grids], case["tgt_sizes"])
        checks.equal(f"{key}.num_slices", len(prepared.strips), case["num_slices"])
        checks.equal(f"{key}.image_sizes", [list(picture.size)], case["image_sizes"])
        checks.equal(f"{key}.slices", len(prepared.strips), len(case["slices"]))
        for place, (strip, recorded) in enumerate(zip(prepared.strips, case["slices"], strict=False)):
            _check_strip(checks, f"{key}[{place}]", strip, recorded, config)


def _check_placeholders(checks: CaseChecks, case: dict[str, Any], prepared: PreparedImage, config: ImageConfig) -> None:
    number = re.match(r"<image_id>(\d+)</image_id>", case["placeholder_with_id"])
    numbered = image_placeholder(prepared.grid, config.num_queries, int(number[1]) if number else None)
    checks.equal(f"{case['key']}.placeholder_with_id", numbered, case["placeholder_with_id"])
    plain = image_placeholder(prepared.grid, config.num_queries)
    checks.equal(f"{case['key']}.placeholder", plain, case["placeholder"])


def _check_strip(checks: CaseChecks, label: str, strip: Strip, recorded: dict[str, Any], config: ImageConfig) -> None:
    if set(recorded) != _SLICE_KEYS:
        checks.unknown(f"{label}: {sorted(set(recorded) ^ _SLICE_KEYS)}")
    codes = _codes(strip, config)
    checks.equal(f"{label}.shape", list(strip.shape), recorded["shape"])
    checks.equal(f"{label}.sha256_f32", sha256(strip.tobytes()).hexdigest(), recorded["sha256_f32"])
    checks.equal(f"{label}.sha256_u8", sha256(codes.tobytes()).hexdigest(), recorded["sha256_u8"])
    for name, ours in (("mean", float(strip.mean(dtype=np.float64))), ("std", float(strip.std(dtype=np.float64)))):
        checks.equal(f"{label}.{name}", isclose(ours, recorded[name], abs_tol=1e-6), True)
    values = strip.reshape(-1)
    first, last = len(recorded["first"]), len(recorded["last"])
    checks.equal(f"{label}.first", values[:first].tolist(), recorded["first"])
    checks.equal(f"{label}.last", values[-last:].tolist(), recorded["last"])


def _codes(strip: Strip, config: ImageConfig) -> NDArray[np.uint8]:
    """Back to the 8-bit values the pixels came from."""
    shape = (-1, 1, 1)
    mean, std = np.asarray(config.mean).reshape(shape), np.asarray(config.std).reshape(shape)
    codes: NDArray[np.uint8] = np.rint((strip * std + mean) * 255).astype(np.uint8)
    return codes


def _check_sizes(context: VerifyContext, checks: CaseChecks) -> None:
    config = recorded_image_config(context)
    resolution, patch_size = config.scale_resolution, config.patch_size
    for case in context.golden.json(checks.file):
        label = f"{case['size']}/{case['max_slice_nums']}"
        if not set(case) <= _SIZE_KEYS:
            checks.unknown(f"{label}: {sorted(set(case) - _SIZE_KEYS)}")
        width, height = case["size"]
        size = (width, height)
        grid = choose_grid(size, case["max_slice_nums"], resolution)
        checks.equal(f"{label}.grid", grid, _pair(case["grid"]))
        for name, upscale in (("best_resize_up", True), ("best_resize", False)):
            checks.equal(f"{label}.{name}", fit_size(size, resolution, patch_size, upscale=upscale), _pair(case[name]))
        refined = None if grid is None else refined_size(size, grid, resolution, patch_size)
        checks.equal(f"{label}.refine", refined, _pair(case.get("refine")))


def _check_pixels(context: VerifyContext, checks: CaseChecks) -> None:
    config = recorded_image_config(context)
    cases = {case["key"]: case for case in context.golden.json(_CASES)["cases"]}
    for name in checks.names():
        key, _, kind = name.partition(".")
        codes_step = re.fullmatch(r"last_slice_u8_every(\d+)", kind)
        if key not in cases or not (codes_step or kind == "last_slice_f32_first_row_block"):
            checks.unknown(name)
            continue
        strip = _prepared(context, cases[key]).strips[-1]
        if codes_step:
            checks.close(name, _codes(strip, config)[:, :, :: int(codes_step[1])])
        else:
            checks.close(name, strip[:, :, : config.patch_size])


def _check_picture_file(context: VerifyContext, checks: CaseChecks) -> None:
    """A picture file: decodes to the bytes of every case that names it, and of the pattern they were made from."""
    decoded = load_image(context.golden.folder / checks.file)
    for case in context.golden.json(_CASES)["cases"]:
        image = case["image"]
        if image["file"] is None or checks.file != f"01_image/{image['file']}":
            continue
        checks.equal(f"{case['key']}.rgb", sha256(decoded.tobytes()).hexdigest(), image["rgb_sha256"])
        pattern = image_pattern(image["width"], image["height"], image["seed"])
        checks.equal(f"{case['key']}.pattern", decoded.tobytes(), pattern.tobytes())


def _pair(pair: list[int] | None) -> tuple[int, int] | None:
    return None if pair is None else (pair[0], pair[1])


REPLAYS = (
    (_CASES, _check_cases),
    ("01_image/sizes.json", _check_sizes),
    ("01_image/pixels.safetensors", _check_pixels),
    ("01_image/*.png", _check_picture_file),
)
