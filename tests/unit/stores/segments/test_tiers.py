import pytest

from stores.segments import Tiers

TIERS = Tiers(fan_in=4, smallest=10, base_share=0.2, base_at_least=1_000)


@pytest.mark.parametrize(
    ("versions", "merged"),
    [
        ([], None),
        ([1_000_000], None),
        ([1_000_000, 1, 2, 3], None),
        ([1_000_000, 1, 2, 3, 4], (1, 5)),
        ([1_000_000, 40, 1, 2, 3, 4], (2, 6)),
        ([1_000_000, 40, 40, 40, 1, 2, 40], (1, 7)),
        ([1_000_000, 400, 40, 40, 40], None),
        ([1_000_000, 1, 40], None),
        ([1_000_000, 1, 1, 1, 40], None),
        ([100, 900], None),
        ([100, 900, 101], (0, 3)),
        ([1_000_000, 100_000, 99_000], None),
        ([1_000_000, 100_000, 100_000], (0, 3)),
    ],
)
def test_neighbours_of_one_size_are_merged_and_all_once_they_are_much_beside_the_base(versions, merged):
    due = TIERS.due(versions)
    assert (None if due is None else (due.start, due.stop)) == merged


def test_a_row_is_written_a_few_times_on_its_way_and_few_segments_are_left():
    segments, written, published = [1_000_000], 0, 0
    most = 0
    tiers = Tiers()
    while published < 150_000:
        segments.append(20)
        published += 20
        while (due := tiers.due(segments)) is not None:
            merged = sum(segments[due])
            written += merged
            segments[due] = [merged]
        most = max(most, len(segments))
    assert written / published < 25  # the first tier takes everything up to a thousand rows in bites of four
    assert most < 20
