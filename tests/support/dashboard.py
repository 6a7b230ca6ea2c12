"""What Grafana's dashboard and Prometheus' rules ask for, and what a program exposes."""

import json
import re
from pathlib import Path

from ruamel.yaml import YAML

_DEPLOY = Path(__file__).parents[2] / "deploy"
_DASHBOARD = _DEPLOY / "grafana" / "dashboards" / "enrich.json"
_RULES = _DEPLOY / "prometheus" / "rules.yml"


def queries(program: str) -> list[str]:
    """The expressions with figures of this program."""
    panels = json.loads(_DASHBOARD.read_text(encoding="utf-8"))["panels"]
    asked = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    groups = YAML(typ="safe", pure=True).load(_RULES.read_text(encoding="utf-8"))["groups"]
    asked += [rule["expr"] for group in groups for rule in group["rules"]]
    return [expression for expression in asked if f"enrich_{program}_" in expression]


def shown(program: str) -> set[str]:
    """The names of its figures."""
    return set(re.findall(rf"enrich_{program}_[a-z0-9_]+", " ".join(queries(program))))


def exposed(page: str) -> set[str]:
    """The names on a page in Prometheus' text format, of figures that have a value."""
    return {re.split(r"[{ ]", line)[0] for line in page.splitlines() if line and not line.startswith("#")}


def groups(program: str) -> set[str]:
    """The labels by which its figures are put together."""
    listed = re.findall(r"by \(([a-z_, ]+)\)", " ".join(queries(program)))
    return {label for some in listed for label in some.split(", ")} - {"le"}
