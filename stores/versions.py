"""The versions that rows get in external stores: stages make them, and all stores compare them."""

LARGEST_VERSION = 2**53
"""Numbers in Redis scripts are exact up to here. All stores have the same bound, so that they can be exchanged."""
LARGEST_RELEASE = LARGEST_VERSION
OFFSETS_OF_A_GENERATION = 2**40
"""A version that is made from an offset is generation * this + offset."""
LARGEST_GENERATION = LARGEST_VERSION // OFFSETS_OF_A_GENERATION - 2
