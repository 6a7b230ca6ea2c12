"""Text that others have written - keys, headers, reasons, answers - for a terminal, which obeys control characters."""


def visible(text: str) -> str:
    """The text on one line, with escapes, as Python has them, for all that is no printable character."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def visible_lines(text: str) -> str:
    """The same for what may have several lines."""
    return "\n".join(map(visible, text.split("\n")))
