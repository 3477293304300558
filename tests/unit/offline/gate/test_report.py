"""What a run of gates leaves behind."""

import json
from pathlib import Path

import pytest

from antiphon.config.optimizations import Exactness
from antiphon.core.errors import ConfigError
from antiphon.offline.gate.report import render_json, render_line, render_summary, write_markdown
from antiphon.offline.gate.verdict import Check, GateResult, Verdict

FAILED = GateResult(
    switch="cfm_graph",
    exactness=Exactness.LOSSLESS,
    plain=False,
    fast=True,
    verdict=Verdict.FAIL,
    checks=(Check(name="largest difference", value=float("inf"), limit=0.0),),
    used={"cfm_graph": 2},
    fell_back={"cfm_graph: not captured": 1},
    reason="missed: largest difference",
)
NOT_SHOWN = GateResult(
    switch="fused_dit",
    exactness=Exactness.ROUNDING,
    plain=False,
    fast=True,
    verdict=Verdict.NOT_SHOWN,
    reason="needs a CUDA device with Triton",
)


def test_lines_name_verdict_setting_figures_and_counters() -> None:
    text = render_line(FAILED)
    assert text.startswith("FAIL      cfm_graph")
    assert "off → on" in text
    assert "! largest difference inf (≤ 0)" in text
    assert "fell back: cfm_graph: not captured 1" in text


def test_what_could_not_be_shown_is_counted_apart() -> None:
    assert render_summary([FAILED, NOT_SHOWN]) == "0 passed, 1 failed, 1 not shown here"


def test_the_document_is_plain_json() -> None:
    document = json.loads(json.dumps(render_json([FAILED, NOT_SHOWN], {"model": "tiny"}), allow_nan=False))
    assert [gate["verdict"] for gate in document["gates"]] == ["fail", "not_shown"]
    assert document["gates"][0]["checks"][0]["value"] == "inf"


def test_a_table_takes_the_place_of_the_earlier_one_and_leaves_the_rest(tmp_path: Path) -> None:
    page = tmp_path / "gates.md"
    page.write_text("before\n<!-- gate cpu -->\nold\n<!-- end of gate cpu -->\nafter\n", encoding="utf-8")
    write_markdown([FAILED], {"model": "tiny"}, page, "cpu")
    write_markdown([NOT_SHOWN], {"model": "tiny"}, page, "cpu")
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- gate cpu -->\n")
    assert text.endswith("<!-- end of gate cpu -->\nafter\n")
    assert "old" not in text
    assert "cfm_graph" not in text
    assert "| `fused_dit` | rounding | off → on | not shown | needs a CUDA device with Triton | – |" in text


def test_a_new_page_holds_the_table_alone(tmp_path: Path) -> None:
    write_markdown([FAILED], {"model": "tiny"}, tmp_path / "new.md", "cuda")
    assert (tmp_path / "new.md").read_text(encoding="utf-8").startswith("<!-- gate cuda -->\nmodel tiny: 0 passed")


def test_a_page_without_a_place_for_the_table_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "gates.md"
    page.write_text("prose\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="place is not there"):
        write_markdown([FAILED], {}, page, "cpu")
    assert page.read_text(encoding="utf-8") == "prose\n"
