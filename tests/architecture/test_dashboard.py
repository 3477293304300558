"""The shipped dashboard asks for metrics that exist."""

import json
import re
from pathlib import Path

from antiphon.telemetry.families import Families

DASHBOARD = Path(__file__).parents[2] / "deploy" / "grafana.json"


def test_every_metric_of_the_dashboard_is_exported() -> None:
    families = Families("m")
    families.watch(dict, dict)
    helps = re.findall(r"^# HELP (\S+)", families.render().decode(), re.MULTILINE)
    asked = set(re.findall(r'__name__=\\"([a-z_:0-9]+?)(?:_bucket)?\\"', DASHBOARD.read_text(encoding="utf-8")))
    assert len(asked) > 8
    assert asked <= set(helps)


def test_panels_do_not_overlap() -> None:
    places = [panel["gridPos"] for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]]
    assert len({(place["x"], place["y"]) for place in places}) == len(places)
