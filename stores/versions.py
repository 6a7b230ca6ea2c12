"""The versions that rows get in external stores: stages make them, and all stores compare them."""

LARGEST_VERSION = 2**53
"""Numbers in Redis scripts are exact up to here. All stores have the same bound, so that they can be exchanged."""
LARGEST_RELEASE = LARGEST_VERSION
OFFSETS_OF_A_GENERATION = 2**40
"""A version that is made from an offset is generation * this + offset."""
LARGEST_GENERATION = LARGEST_VERSION // OFFSETS_OF_A_GENERATION - 2


def whole_number(text: bytes | None, *, most_digits: int = 18) -> int | None:
    """A version or a release, as it stands in a header or a store. None for what is none, or has more digits: another
    program may have written it. 18 digits fit 64 bits."""
    return int(text) if text is not None and text.isdigit() and len(text) <= most_digits else None
