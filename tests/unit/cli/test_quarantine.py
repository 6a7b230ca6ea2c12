"""What `enrich quarantine` shows of bytes that may be anything."""

import pytest

from enrich.cli.output import readable


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (None, "nothing"),
        (b"", ""),
        ("ü 1\n\t2".encode(), "ü 1\n\t2"),
        (b"\xff\x00", "hex ff 00"),
        (b"\x1b[2Jtext", "hex 1b 5b 32 4a 74 65 78 74"),
        ("\u202etxet".encode(), "hex e2 80 ae 74 78 65 74"),
    ],
)
def test_text_is_shown_as_text_and_what_a_terminal_would_obey_as_hex(content, shown):
    assert readable(content, "nothing") == shown
