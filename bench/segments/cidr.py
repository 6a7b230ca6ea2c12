"""Addresses looked up in 500,000 networks, two thirds of them IPv4, in batches of 10,000, one core."""

import ipaddress
import random
import time

import numpy as np
import pyarrow as pa

from bench.harness import Figures, interleaved, medians, say
from bench.segments.data import (
    BATCH,
    CIDR,
    SELECTED,
    building,
    open_writer,
    rows_of,
    segments_directory,
    versions_of,
)
from stores.networks import parse_network
from stores.rocks.network_rows import network_key
from stores.segments import SegmentsReader
from stores.table import Status

ROUNDS = 7
NETWORKS = 500_000
BATCHES = 10


def run() -> Figures:
    pa.set_cpu_count(1)
    choice = random.Random(5)
    say(f"making {NETWORKS:,} networks")
    networks = [_network(choice) for _ in range(NETWORKS)]
    batches = [pa.array([_address(choice, networks) for _ in range(BATCH)]) for _ in range(BATCHES)]
    with segments_directory() as directory:
        writer = open_writer(directory, {"networks": CIDR})
        keys = [network_key(parse_network(f"{address}/{length}".encode())) for address, length in networks]
        with building(writer, "networks", NETWORKS, CIDR) as base:
            base.add(versions_of(pa.array(keys, pa.binary())), rows_of(np.arange(NETWORKS)))
        view = SegmentsReader(directory, {"networks": CIDR}).snapshot().table("networks")
        hits = sum(view.lookup(batch, SELECTED).status.to_pylist().count(Status.HIT) for batch in batches)

        def ask() -> float:
            started = time.process_time()
            for batch in batches:
                view.lookup(batch, SELECTED)
            return time.process_time() - started

        seconds = medians(interleaved(ROUNDS, {"ask": ask}))["ask"]
    return {"per_s": BATCHES * BATCH / seconds, "hit_share": hits / (BATCHES * BATCH)}


def _network(choice: random.Random) -> tuple[str, int]:
    """As they are in routing tables: few short ones, most of them /24 or /48."""
    if choice.random() < 2 / 3:
        length = choice.choice([8, 12, 16, 18, 19, 20, 21, 22, 22, 23, 23, 24, 24, 24, 24, 24, 28, 32])
        return str(
            ipaddress.IPv4Address(choice.randrange(1 << 24, 224 << 24) >> (32 - length) << (32 - length))
        ), length
    length = choice.choice([20, 28, 29, 32, 32, 36, 40, 44, 48, 48, 48, 48, 56, 64])
    address = (0x2000 << 112) + choice.randrange(1 << 44) * (1 << 80)
    return str(ipaddress.IPv6Address(address >> (128 - length) << (128 - length))), length


def _address(choice: random.Random, networks: list[tuple[str, int]]) -> str:
    """Half of them in a network that is there, the others anywhere."""
    address = ipaddress.ip_address(choice.choice(networks)[0])
    if choice.random() < 0.5:
        return str(address + choice.randrange(200))
    if address.version == 4:
        return str(ipaddress.IPv4Address(choice.randrange(1 << 24, 224 << 24)))
    return str(ipaddress.IPv6Address((0x2000 << 112) + choice.randrange(1 << 124)))
