"""The look-up protocol once more, as plainly as it is defined: every version is kept, each question scans all."""

import ipaddress
from collections.abc import Mapping, Sequence

from stores.table import RowVersion, Status


class Model:
    def __init__(self) -> None:
        self.versions: list[RowVersion] = []

    def add(self, versions: Sequence[RowVersion]) -> None:
        self.versions += versions

    def find(self, key: str | None, as_of: int | None = None, pin: Mapping[int, int] | None = None) -> object:
        """(status, partition, offset) of the version that answers, history being whole."""
        if key is None:
            return (Status.NULL_KEY, None, None)
        return self._answer([v for v in self.versions if v.key == key.encode()], as_of, pin)

    def find_network(self, address: str, as_of: int | None = None, pin: Mapping[int, int] | None = None) -> object:
        ip = ipaddress.ip_address(address)
        mapped = getattr(ip, "ipv4_mapped", None)
        ip = mapped or ip
        by_network: dict[ipaddress.IPv4Network | ipaddress.IPv6Network, list[RowVersion]] = {}
        for v in self.versions:
            by_network.setdefault(ipaddress.ip_network(v.key.decode(), strict=False), []).append(v)
        around = sorted((n for n in by_network if ip in n), key=lambda n: -n.prefixlen)
        found = [self._answer(by_network[network], as_of, pin) for network in around]
        for wanted in (Status.HIT, Status.DELETED):
            for answer in found:
                if answer[0] is wanted:
                    return answer
        return (Status.MISS, None, None)

    @staticmethod
    def _answer(
        versions: Sequence[RowVersion], as_of: int | None, pin: Mapping[int, int] | None
    ) -> tuple[Status, int | None, int | None]:
        seen = [v for v in versions if pin is None or v.offset < pin.get(v.partition, 0)]
        if as_of is not None:
            seen = [v for v in seen if v.timestamp <= as_of]
        else:
            seen = [v for v in seen if not any(w.partition == v.partition and w.offset > v.offset for w in seen)]
        if not seen:
            return (Status.MISS, None, None)
        last = max(seen, key=lambda v: (v.timestamp, v.partition, v.offset))
        return (Status.DELETED if last.value is None else Status.HIT, last.partition, last.offset)
