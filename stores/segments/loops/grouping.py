"""The loops of building a segment: group row versions by key, and decide which of them the segment keeps."""

import numpy as np

from stores.segments.loops.compiled import Bytes, Flags, Hashes, Integers, Records, compiled, inlined
from stores.segments.loops.hashing import are_equal, hash_of, head_of, more_of


@compiled
def add_keys(
    hashes: Hashes,
    data: Bytes,
    starts: Integers,
    lengths: Integers,
    slots: Hashes,
    entries: Records,
    keys: Bytes,
    count: int,
    used: int,
    entry_of: Integers,
) -> tuple[int, int]:
    """Gives every key an entry, equal keys the same one. Returns the number of entries and of bytes of keys."""
    mask = len(slots) - 1
    number_bits, mark_bits = np.uint64(mask), np.uint64(0xFFFFFFFF ^ mask)
    for i in range(len(hashes)):
        mark = (hashes[i] >> np.uint64(32)) & mark_bits
        place = np.int64(hashes[i]) & mask
        length = lengths[i]
        while True:
            word = np.uint64(slots[place])
            if word == np.uint64(0):
                slots[place] = mark | np.uint64(count + 1)
                entry = entries[count]
                entry.head = head_of(data, starts[i], length)
                entry.more = more_of(data, starts[i], length)
                entry.key_start = used
                entry.key_length = length
                for at in range(length):
                    keys[used + at] = data[starts[i] + at]
                entry_of[i] = count
                used += length
                count += 1
                break
            number = np.int64(word & number_bits) - 1
            if (
                word & mark_bits == mark
                and entries[number].key_length == length
                and are_equal(data, starts[i], keys, entries[number].key_start, length)
            ):
                entry_of[i] = number
                break
            place = (place + 1) & mask
    return count, used


@compiled
def fill_slots(entries: Records, keys: Bytes, slots: Hashes) -> None:
    """Fills the hash table with entries whose keys all differ."""
    mask = len(slots) - 1
    mark_bits = np.uint64(0xFFFFFFFF ^ mask)
    for number in range(len(entries)):
        value = hash_of(keys, entries[number].key_start, entries[number].key_length)
        place = np.int64(value) & mask
        while slots[place] != 0:
            place = (place + 1) & mask
        slots[place] = ((value >> np.uint64(32)) & mark_bits) | np.uint64(number + 1)


@compiled
def count_versions(entry_of: Integers, begins: Integers) -> None:
    """Fills `begins`: where the versions of each entry begin, and where the last ones end."""
    for version in range(len(entry_of)):
        begins[entry_of[version] + 1] += 1
    for entry in range(1, len(begins)):
        begins[entry] += begins[entry - 1]


@compiled
def number_rows(kept: Flags, rows: Integers) -> int:
    """Numbers the rows of the kept versions in order. Afterwards only versions with a row are marked in `kept`."""
    count = 0
    for version in range(len(kept)):
        kept[version] &= rows[version] >= 0
        rows[version] = count if kept[version] else -1
        count += 1 if kept[version] else 0
    return count


@compiled
def group(entry_of: Integers, begins: Integers) -> Integers:
    """The versions in the order of their entries, stable within an entry. `begins`: see `count_versions`."""
    next_place = begins[:-1].copy()
    order = np.empty(len(entry_of), np.int64)
    for version in range(len(entry_of)):
        entry = entry_of[version]
        order[next_place[entry]] = version
        next_place[entry] += 1
    return order


@inlined
def _sort(order: Integers, values: Integers) -> None:
    """Stable sort in place by the values."""
    if len(order) > 32:
        order[:] = order[np.argsort(values[order], kind="mergesort")].copy()
        return
    for i in range(1, len(order)):
        moving = order[i]
        at = i
        while at > 0 and values[order[at - 1]] > values[moving]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = moving


@compiled
def settle(
    begins: Integers,
    order: Integers,
    partitions: Integers,
    offsets: Integers,
    timestamps: Integers,
    floor_offsets: Integers,
    floor_timestamps: Integers,
    entries: Records,
    kept: Flags,
) -> Integers:
    """Decides which versions of each entry are kept. Returns how many.

    Afterwards those of an entry come first in its part of `order`, sorted by (timestamp, partition, offset). A version
    is dropped if it is a duplicate, or if a later one of its partition hides it from all look-ups above the floors.
    """
    counts = np.empty(len(entries), np.int64)
    for entry in range(len(entries)):
        mine = order[begins[entry] : begins[entry + 1]]
        is_one_partition, is_ordered = True, True
        for i in range(1, len(mine)):
            is_one_partition &= partitions[mine[i]] == partitions[mine[0]]
            is_ordered &= offsets[mine[i]] > offsets[mine[i - 1]]
        if not (is_one_partition and is_ordered):
            _sort(mine, offsets)
            _sort(mine, partitions)
        newest = -1
        hides_until, is_hiding = np.int64(0), False
        for i in range(len(mine) - 1, -1, -1):
            version = mine[i]
            partition = partitions[version]
            is_last = i + 1 == len(mine) or partitions[mine[i + 1]] != partition
            if is_last:
                is_hiding = False
                if newest < 0 or timestamps[version] > timestamps[newest]:
                    newest = version
            is_twice = not is_last and offsets[mine[i + 1]] == offsets[version]
            kept[version] = not is_twice and (not is_hiding or timestamps[version] > hides_until)
            if offsets[version] < floor_offsets[partition] and timestamps[version] <= floor_timestamps[partition]:
                hides_until = max(hides_until, timestamps[version]) if is_hiding else timestamps[version]
                is_hiding = True
        count = 0
        is_ordered = True
        for i in range(len(mine)):
            if kept[mine[i]]:
                mine[count] = mine[i]
                is_ordered &= count == 0 or timestamps[mine[count]] >= timestamps[mine[count - 1]]
                count += 1
        if not is_ordered or not is_one_partition:
            _sort(mine[:count], timestamps)
        counts[entry] = count
        record = entries[entry]
        record.offset = offsets[newest]
        record.timestamp = timestamps[newest]
        record.partition = partitions[newest]
        record.flags = (0 if is_one_partition else 1) | (2 if is_ordered and is_one_partition else 0)
        record.row = newest  # for now; `write_versions` replaces it with the number of its row
    return counts


@compiled
def bury(entries: Records, begins: Integers, counts: Integers, rows: Integers, buried: Integers) -> int:
    """Takes out the entries of one partition of which only a tombstone is left, below `buried` of the partition.

    Returns how many stay, with their `begins` and `counts`. For settled entries: `row` is still the newest version."""
    left = 0
    for number in range(len(entries)):
        entry = entries[number]
        is_lone = counts[number] == 1 and entry.flags & 1 == 0
        if is_lone and rows[entry.row] < 0 and entry.offset < buried[entry.partition]:
            continue
        if left < number:
            entries[left] = entry
            begins[left], counts[left] = begins[number], counts[number]
        left += 1
    return left


@compiled
def write_versions(
    begins: Integers,
    counts: Integers,
    order: Integers,
    partitions: Integers,
    offsets: Integers,
    timestamps: Integers,
    new_rows: Integers,
    entries: Records,
    versions: Records,
) -> None:
    """Fills in the versions of the entries that have several, and all row numbers."""
    at = 0
    for number in range(len(entries)):
        entry = entries[number]
        entry.row = new_rows[entry.row]
        if counts[number] < 2:
            entry.versions_count = 0
            continue
        entry.versions_start = at
        entry.versions_count = counts[number]
        for i in range(begins[number], begins[number] + counts[number]):
            version = versions[at]
            version.offset = offsets[order[i]]
            version.timestamp = timestamps[order[i]]
            version.partition = partitions[order[i]]
            version.row = new_rows[order[i]]
            at += 1


@compiled
def mark_split(entry_of: Integers, split: Flags, entries: Records) -> None:
    """Marks the keys that the sources know to be in several partitions."""
    for version in range(len(entry_of)):
        if split[version]:
            entries[entry_of[version]].flags |= 1
