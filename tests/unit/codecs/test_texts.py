"""Values of sources that have only text."""

import pyarrow as pa

from enrich.codecs.json.texts import as_key_part


def test_a_key_may_be_any_whole_number_of_64_bits():
    whole = [0, -1, 10**18, -(10**18), 1_234_567_890_123_456_789, 2**63 - 1, -(2**63)]
    texts = [
        *map(str, whole),
        None,
        "",
        "01",
        "1.0",
        "+1",
        " 1",
        "x",
        str(2**63),
        str(-(2**63) - 1),
        "9" * 19,
        "1" * 40,
    ]
    found = as_key_part(pa.array(texts, pa.string()), pa.int64())
    assert found == pa.array(whole + [None] * (len(texts) - len(whole)), pa.int64())
    assert as_key_part(pa.array([], pa.string()), pa.int64()) == pa.array([], pa.int64())
