"""An expression of Spark's resolved plan. Each question to the JVM takes some tenths of a millisecond, so only what is
needed is asked."""

from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa

from enrich.stage.compute.kinds import simple_kind
from enrich.stage.compute.nodes import Constant


class NotHere(Exception):
    """Workers cannot evaluate this. The text is the reason, as the end of a sentence."""


class Tree:
    """One expression and those below it."""

    def __init__(self, java: Any) -> None:
        self.java = java
        """The expression itself, for questions that only some classes answer."""

    @cached_property
    def name(self) -> str:
        """The class, without its package."""
        return str(self.java.getClass().getSimpleName())

    @cached_property
    def type_name(self) -> str:
        """The type of its values, as Spark calls it."""
        return str(self.java.dataType().catalogString())

    @cached_property
    def kind(self) -> pa.DataType:
        """Raises NotHere for a type that is not simple."""
        kind = simple_kind(self.type_name)
        if kind is None:
            raise self.refused()
        return kind

    @cached_property
    def children(self) -> Sequence["Tree"]:
        found = self.java.children()
        return [Tree(found.apply(index)) for index in range(found.size())]

    def constant(self) -> Constant:
        """The value of a literal."""
        value = self.java.value()
        if value is not None and (pa.types.is_string(self.kind) or pa.types.is_decimal(self.kind)):
            value = str(value.toString())
            if pa.types.is_decimal(self.kind):
                value = Decimal(value)
        return Constant(value, self.kind)

    def is_usual(self) -> bool:
        """Whether what does not fit becomes what it does by default without ANSI mode: `try_cast` has other rules."""
        return bool(self.java.evalMode().toString() == "LEGACY")

    def refused(self) -> NotHere:
        """The error for an expression for which there is no rule."""
        types = " and ".join(dict.fromkeys(child.type_name for child in self.children)) or self.type_name
        return NotHere(f"workers have no `{self.java.prettyName()}` ({self.name}) of {types}")
