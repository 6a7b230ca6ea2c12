from enrich.host.loaders.refreshing import ShrinkGuard


def test_as_many_rows_fewer_and_down_to_half_are_believed_at_once():
    guard = ShrinkGuard()
    assert [guard.doubt(served=10, read=read) for read in (10, 9, 5, 1000)] == [None] * 4
    assert guard.doubt(served=0, read=0) is None


def test_a_source_with_less_than_half_is_believed_when_three_reads_in_a_row_say_so():
    guard = ShrinkGuard()
    assert "no rows where 10 are served" in str(guard.doubt(served=10, read=0))
    assert "4 rows" in str(guard.doubt(served=10, read=4))
    assert guard.doubt(served=10, read=0) is None
    assert guard.doubt(served=4, read=0) is not None


def test_a_read_as_expected_in_between_begins_the_count_again():
    guard = ShrinkGuard()
    for _ in range(3):
        assert guard.doubt(served=10, read=0) is not None
        assert guard.doubt(served=10, read=0) is not None
        assert guard.doubt(served=10, read=9) is None
