"""`${VAR}`: what is put in is never looked at again, and what is escaped comes out as it was."""

from hypothesis import given
from hypothesis import strategies as st

from enrich.config import load_text
from enrich.config.file.environment import escape, substitute
from enrich.config.messages.words import Wrong

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True)
PLAIN = st.text(st.characters(codec="utf-8", exclude_characters="$"), max_size=10)
VALUES = st.text(max_size=20)


@given(st.dictionaries(NAMES, VALUES, min_size=1), PLAIN, PLAIN, st.data())
def test_a_value_goes_in_as_it_is(environ: dict[str, str], before: str, after: str, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(environ)))
    assert substitute(f"{before}${{{name}}}{after}", environ) == before + environ[name] + after


@given(st.text())
def test_an_escaped_text_comes_out_as_it_was(text: str) -> None:
    assert substitute(escape(text), {}) == text


@given(NAMES, st.text(st.characters(exclude_characters="{}")), st.one_of(st.none(), VALUES))
def test_a_default_stands_in_for_what_is_unset_or_empty(name: str, default: str, value: str | None) -> None:
    environ = {} if value is None else {name: value}
    assert substitute(f"${{{name}:-{default}}}", environ) == (value or default)


PIECES = st.sampled_from(["$", "{", "}", "${", "$${", ":-", "A", "B", " ", "1"])


@given(st.lists(PIECES).map("".join))
def test_any_text_is_replaced_or_refused_at_a_reference(text: str) -> None:
    try:
        substitute(text, {"A": "${B}"})
    except Wrong as wrong:
        assert wrong.offset is not None
        assert text.startswith("${", wrong.offset)


# What no YAML file can hold, an environment can, but not in a name of a server.
@given(st.text(st.characters(codec="utf-8")))
def test_no_value_becomes_yaml(value: str) -> None:
    text = "name: a\nkafka: {bootstrap_servers: 'a:1', client: {client.id: \"x${V}\"}}"
    assert load_text(text, {"V": value}).kafka.client.given() == {"client.id": f"x{value}"}
