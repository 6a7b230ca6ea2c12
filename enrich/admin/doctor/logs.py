"""Checks the databases whose change log sources follow. Nothing is made or changed."""

from collections.abc import Iterator
from contextlib import closing

from enrich.admin.doctor.verdict import Verdict, bad, good, warning
from enrich.base.errors import EnrichError
from enrich.config import Follow, Pipeline, PostgresOrigin
from enrich.config.sections.sync.sources import slot_name

_MUCH_BYTES = 1 << 30


def of_logs(pipeline: Pipeline) -> Iterator[Verdict]:
    for name, source in ({} if pipeline.sync is None else pipeline.sync.sources).items():
        postgres = source.from_.postgres
        if postgres is not None and postgres.follow is Follow.log:
            yield from _of_log(name, postgres, postgres.slot or slot_name(pipeline.name, name))


def _of_log(name: str, postgres: PostgresOrigin, slot: str) -> Iterator[Verdict]:
    # Imported late: the driver takes a tenth of a second, and few pipelines need it here.
    from stores.external.postgres.log.catalog import Catalog
    from stores.external.postgres.log.slots import Slots

    source = f"source {name}"
    try:
        with closing(Slots(postgres.dsn.get_secret_value(), slot)) as slots:
            slots.require_settings()
            if postgres.table is not None:
                slots.table(postgres.table, postgres.key or ())
                followed = f"table {postgres.table}"
            else:
                found = [each for each in Catalog(slots, postgres.tables or ()).tables() if each.is_named]
                followed = f"{sum(each.trouble is None for each in found)} tables"
                for each in found:
                    if each.trouble is not None:
                        what = f"{source}: table {each.full_name}: {each.trouble.what}"
                        yield bad("logs", what, each.trouble.next_step)
            limit, now = slots.keep_limit(), slots.slot()
    except EnrichError as error:
        yield bad("logs", f"{source}: {error.what}", error.next_step)
        return
    if now is not None and now.is_lost:
        yield bad("logs", f"{source}: the slot {slot} has lost what it needs", "start the source: it compares all")
    elif now is not None and now.held_bytes > _MUCH_BYTES:
        held = f"{now.held_bytes / 2**30:,.1f} GiB"
        yield warning("logs", f"{source}: PostgreSQL keeps {held} of its log for the slot {slot}", "start the source")
    if limit is None:
        step = "ALTER SYSTEM SET max_slot_wal_keep_size = '50GB'; then SELECT pg_reload_conf()"
        yield warning("logs", f"{source}: a slot that nobody reads may fill the disk of PostgreSQL", step)
    else:
        yield good("logs", f"{source}: {followed} can be followed")
