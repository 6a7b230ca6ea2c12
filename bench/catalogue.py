"""All benchmarks by name."""

from collections.abc import Callable
from importlib import import_module

from bench.harness import Benchmark, Figures


def _later(module: str) -> Callable[[], Figures]:
    # Imported when it runs: a benchmark may need what the others do not have to load.
    return lambda: import_module(f"bench.{module}").run()


_GROWING = (
    "agent",
    *(f"{profile}_{who}" for profile in ("realtime", "latency") for who in ("driver", "jvm", "workers")),
)
"""What of an idle and of a busy pipeline `stage_hours` looks at."""

BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark("cli_start", "`enrich --help` from start to end", _later("admin.cli_start"), {"ms": ("<", 300)}),
        Benchmark(
            "cache",
            "hits of the refresh-after-write cache beside a bare cachetools LRU",
            _later("host.cache"),
            {"ratio": (">=", 0.5)},
        ),
        Benchmark(
            "on_demand",
            "a table on demand: hits beside a mapped table, loads, and the first look-up of a key",
            _later("host.on_demand"),
            {"first_key_p95_ms": ("<", 100)},
        ),
        Benchmark(
            "stack_start",
            "the embedded stack from `up` to ready",
            _later("admin.stack_start"),
            {"ready_s": ("<", 10)},
        ),
        Benchmark(
            "store_bootstrap",
            "1 M JSON rows from a topic to a ready table, beside Kafka Streams restoring the same topic",
            _later("host.store_bootstrap"),
            {
                "rows_per_s": (">=", 250_000),
                "peak_mib": ("<", 600),
                "steady_mib": ("<", 300),
                "reader_mib": ("<", 40),
            },
        ),
        Benchmark(
            "large_table",
            "tables of 1 M, 4 M and 10 M rows: time, memory until segments are built, and what each million more takes",
            _later("host.large_table"),
            {"peak_mib_10m": ("<", 2_048)},
        ),
        Benchmark(
            "store_restart",
            "a store of 1 M rows, from kill -9 of its agent to ready again",
            _later("host.store_restart"),
            {"ready_s": ("<", 2)},
        ),
        Benchmark(
            "broker_load",
            "what a host with 200 tables asks of the brokers: at its start, with nothing to do, of a topic made again",
            _later("host.broker_load"),
        ),
        Benchmark(
            "idle_agent",
            "an agent with nothing to do: share of a core with 3, 60, 200 tables; a publication and a snapshot there",
            _later("host.idle_agent"),
            {
                "t3": ("<", 0.015),
                "t60": ("<", 0.03),
                "t200": ("<", 0.05),
                "snapshot_us": ("<", 200),
                "publish_ms": ("<", 3),
            },
        ),
        Benchmark(
            "busy_tables",
            "200 tables of which 20 change: alone, and while one is loaded, one made again and one has no topic",
            _later("host.busy_tables"),
            {"busy_vs_quiet": ("<", 2)},
        ),
        Benchmark(
            "store_visibility",
            "from a producer to a reader in another process at 1,000 updates/s, also while a table loads",
            _later("host.store_visibility"),
            {"p95_ms": ("<", 100), "p95_ms_during_load": ("<", 200)},
        ),
        Benchmark(
            "store_publish",
            "updates of a table of 1 M rows until a reader has them, with and without history",
            _later("host.store_publish"),
            {"rows_per_s": (">=", 200_000), "history_rows_per_s": (">=", 100_000), "history_growth": ("<", 1.2)},
        ),
        Benchmark(
            "cdc",
            "a PostgreSQL table of a million rows to a topic by the change log",
            _later("sync.cdc"),
            {
                "changes_per_s": (">=", 60_000),
                "snapshot_rows_per_s": (">=", 100_000),
                "commit_to_reader_p95_ms": ("<", 150),
                "vs_debezium": (">=", 3),
                "transaction_peak_mib": ("<", 300),
            },
        ),
        Benchmark(
            "sync_redis",
            "rows of 100 bytes from a topic to Redis, one instance of the sync service",
            _later("sync.to_redis"),
            {"rows_per_s": (">=", 80_000)},
        ),
        Benchmark(
            "sync_postgres",
            "rows of 100 bytes from a topic to PostgreSQL, one instance of the sync service",
            _later("sync.to_postgres"),
            {"rows_per_s": (">=", 40_000)},
        ),
        Benchmark(
            "sync_releases",
            "rows of 100 bytes from a topic to Redis and PostgreSQL, without and with releases",
            _later("sync.releases"),
            {"ratio": (">=", 0.7)},
        ),
        Benchmark(
            "reconcile",
            "`enrich sync reconcile` of 1 M rows: stores that have them all, and stores that were emptied",
            _later("sync.reconcile"),
            {"s": ("<", 30), "peak_mib": ("<", 300), "ratio_10x": ("<", 12.001)},
        ),
        Benchmark(
            "snapshots",
            "export and verify of 1 M rows, and a cold host that starts from the snapshot beside one from the topic",
            _later("host.snapshots"),
        ),
        Benchmark(
            "sync_latency",
            "from a record's production to its row in the store, at 2,000 rows/s",
            _later("sync.latency"),
            {"redis_p95_ms": ("<", 100), "postgres_p95_ms": ("<", 100)},
        ),
        Benchmark(
            "segments_lookup",
            "look-ups in mapped segments of 1 M and 10 M keys: uniform, skewed, misses, with deltas, beside RocksDB",
            _later("segments.lookup"),
            {
                "uniform_per_s": (">=", 3_000_000),
                "vs_rocks": (">=", 8),
                "keys10m_per_s": (">=", 2_000_000),
                "zipf_vs_uniform": (">=", 1),
                "miss_vs_hit": (">=", 1),
                "deltas_vs_none": (">=", 0.7),
                "three_tables_vs_one": ("<", 3.001),
            },
        ),
        Benchmark(
            "segments_history",
            "as-of and pinned look-ups in segments with four versions a key",
            _later("segments.history"),
            {"asof_per_s": (">=", 1_500_000), "pin_per_s": (">=", 1_500_000)},
        ),
        Benchmark(
            "segments_cidr",
            "addresses looked up in a table of 500,000 mixed networks",
            _later("segments.cidr"),
            {"per_s": (">=", 1_000_000)},
        ),
        Benchmark(
            "segments_publish",
            "publishing 1,000 changed rows, 1,000 updates/s with merges, and building a base of 1 M rows",
            _later("segments.publish"),
            {"publish_p95_ms": ("<", 20), "core_share": ("<", 0.25), "build_1m_s": ("<", 2)},
        ),
        Benchmark(
            "segments_memory",
            "private memory of ten readers of 1 M rows, and of the process that builds these rows",
            _later("segments.memory"),
            {"readers_private_mib": ("<", 200), "build_private_mib": ("<", 300)},
        ),
        Benchmark(
            "stage_peers",
            "a stage over 3 M events beside its ceiling, Kafka Streams, a broadcast join, Redis GET and Redis MGET",
            _later("stage.peers"),
            {
                "one_lookup_vs_ceiling": (">=", 0.75),
                "three_lookups_vs_ceiling": (">=", 0.55),
                "vs_kafka_streams": (">=", 1.5),
                "realtime_vs_kafka_streams": (">=", 2.5),
                "vs_redis_get": (">=", 20),
                "vs_redis_mget": (">=", 1.001),
            },
        ),
        Benchmark(
            "stage_routes",
            "five routes over 2 M events beside one route and beside Kafka Streams; what tallies cost",
            _later("stage.routes"),
            {"vs_one_route": (">=", 0.75), "vs_kafka_streams": (">=", 1.5), "tally_cost": ("<", 0.03)},
        ),
        Benchmark(
            "stage_latency",
            "from the producer to a consumer of the enriched event at 20 K events/s, beside a UDF that does nothing",
            _later("stage.latency"),
            {
                "p95_ms": ("<", 300),
                "p95_vs_empty": ("<", 1.25001),
                "realtime_p95_ms": ("<", 100),
                "p95_vs_kafka_streams": ("<", 2.00001),
                "failover_s": ("<", 3),
            },
        ),
        Benchmark(
            "idle_stage",
            "a stage without events, by its profile: share of a core, and of the broker's",
            _later("stage.idle"),
            {},
        ),
        Benchmark(
            "stage_hours",
            "what an hour adds to memory and open files of an agent and of stages, idle and busy (75 minutes)",
            _later("stage.hours"),
            {
                **{f"{load}_{what}_mib_per_h": ("<", 8) for load in ("idle", "busy") for what in _GROWING},
                **{f"{load}_{what}_files_added": ("<", 1.00001) for load in ("idle", "busy") for what in _GROWING},
            },
        ),
        Benchmark(
            "cold_start",
            "from `enrich run` to the first output on a host that has nothing, the first minute, a backlog",
            _later("stage.cold_start"),
            {
                f"{prefix}{name}": target
                for prefix in ("", "realtime_")
                for name, target in {
                    "first_output_s": ("<", 12),
                    "first_minute_p95_vs_warm": ("<", 1.50001),
                    "to_full_speed_s": ("<", 20),
                    "first_2m_vs_kafka_streams": (">=", 1.8),
                }.items()
            },
        ),
        Benchmark(
            "stage_growth",
            "a stage with 10 K to 10 M keys, 1 to 8 look-ups, events of 100 bytes to 10 KB, one and two executors",
            _later("stage.growth"),
        ),
        Benchmark(
            "ingest",
            "events over HTTP in one process on one core, single and by the hundred, beside a service as one writes it",
            _later("edge.ingest"),
            {
                "single_requests_per_s": (">=", 4_000),
                "batched_events_per_s": (">=", 100_000),
                "p99_ms": ("<", 50),
                "batched_p99_ms": ("<", 50),
                "peak_mib": ("<", 300),
                "vs_plain": (">=", 2),
            },
        ),
        Benchmark(
            "expel",
            "events of a topic over HTTP on one core: single, by the hundred over 50 ms, beside a dead route",
            _later("edge.expel"),
            {
                "requests_per_s": (">=", 3_000),
                "events_per_s": (">=", 50_000),
                "added_p99_ms": ("<", 25),
                "retried_ratio": ("<", 1.05),
                "isolation_ratio": ("<", 1.1),
            },
        ),
        Benchmark(
            "chain_latency",
            "HTTP in to HTTP out through a stage at 5 K events/s, and the share of ingest, stage and expel",
            _later("edge.chain_latency"),
        ),
        Benchmark(
            "tally_codec",
            "a node's tallies of a minute of 600,000 events in random order, a fifth twice: encoded, decoded, added up",
            _later("observe.tally_codec"),
            {"kib_per_node_minute": ("<", 64)},
        ),
        Benchmark(
            "observer",
            "30 open minutes of 600,000 events in random order, a fifth twice, 4 nodes, 10 routes: taken and judged",
            _later("observe.observer"),
            {"kib_per_node_minute": ("<", 64), "verdict_ms": ("<", 100), "memory_mib": ("<", 200)},
        ),
        Benchmark(
            "rating",
            "`enrich rate run` three times on a chain whose capacity is known",
            _later("observe.rating"),
            {"worst_error": ("<", 0.1)},
        ),
        Benchmark(
            "sync_source",
            "a PostgreSQL table of 1 M rows to a topic, then 1 % changed, then all compared",
            _later("sync.source"),
            {"rows_per_s": (">=", 100_000), "second_vs_first_time": ("<", 0.3), "peak_mib": ("<", 400)},
        ),
        Benchmark(
            "admin_load",
            "`enrich table load` of a CSV file of 1 M rows",
            _later("admin.load"),
            {"rows_per_s": (">=", 200_000), "peak_mib": ("<", 300)},
        ),
        Benchmark("admin_verify", "`enrich table verify` of 1 M rows", _later("admin.verify"), {"s": ("<", 10)}),
        Benchmark("admin_check", "`enrich topics check` of 1 M records", _later("admin.check"), {"s": ("<", 10)}),
    )
}
