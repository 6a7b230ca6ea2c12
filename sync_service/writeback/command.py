"""`enrich sync pause|resume|resync`: a person's command to all instances of a route, wherever they run.

It is written to the route's note in the store, which every instance reads before it commits. It is as durable as the
rows.
"""

import argparse
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

from enrich.base.errors import ConfigError
from enrich.base.exits import DONE
from enrich.base.json_lines import print_json
from enrich.config import Pipeline
from sync_service.writeback.generation import Gate, Generation, random_id
from sync_service.writeback.plan import WritebackPlan, chosen_plans
from sync_service.writeback.route import Clients

_DONE = {
    "pause": "is paused: its instances finish what they have begun and stop writing within seconds",
    "resume": "is resumed: it continues within 15 s",
    "resync": "writes its topic again from the start; rows whose version in the store is the same or newer stay",
}


def control(pipeline: Pipeline, options: argparse.Namespace) -> int:
    clients = Clients(pipeline)
    if not options.routes:
        choices = ", ".join(plan.name for plan in chosen_plans(pipeline, []))
        raise ConfigError("name the routes", next_step=f"choose from {choices}")
    for plan in chosen_plans(pipeline, options.routes):
        changed = _change(plan, clients, options.command)
        skipped = options.command == "resync" and any(changed.starts.values())
        if options.json:
            print_json(
                {"route": plan.name, "done": options.command, "paused": changed.paused, "from_start": not skipped}
            )
            continue
        print(f"{plan.name} {_DONE[options.command]}")  # noqa: T201 - the answer
        if skipped:
            print(  # noqa: T201 - the answer
                "  records from before its generation was raised are skipped: "
                f"`enrich sync reconcile {plan.name} --repair -c FILE` compares them too"
            )
    return DONE


def _change(plan: WritebackPlan, clients: Clients, command: str) -> Generation:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    changes: dict[str, Callable[[Generation], Generation]] = {
        "pause": lambda known: replace(known, paused=known.paused or now),
        "resume": lambda known: replace(known, paused=None),
        "resync": lambda known: replace(known, born=random_id()),
    }
    with closing(plan.open_store()) as store:
        gate = Gate(store, clients.topics(), plan.section.topic, plan.pipeline, plan.name)
        return gate.change(changes[command])
