"""Whether what one schema wrote can be read as another: the rules of Avro's specification, type by type."""

from enrich.codecs.avro.schemas.types import Array, AvroType, Enum, Fixed, Map, Primitive, Record, Union

_PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


def matches(writer: AvroType, reader: AvroType) -> bool:
    """For two types that are no unions: what is inside them is looked at when it is compiled."""
    if isinstance(writer, Primitive) and isinstance(reader, Primitive):
        return writer.name == reader.name or reader.name in _PROMOTIONS.get(writer.name, ())
    if isinstance(writer, Fixed) and isinstance(reader, Fixed):
        return writer.size == reader.size and _same_name(writer, reader)
    if isinstance(writer, Enum | Record) and isinstance(reader, Enum | Record):
        return type(writer) is type(reader) and _same_name(writer, reader)
    return isinstance(writer, Array | Map) and type(writer) is type(reader)


def branch_for(writer: AvroType, reader: Union) -> AvroType | None:
    """The branch that a value of the writer's type is read as: the same type if there is one, else the first fit."""
    fitting = [branch for branch in reader.branches if matches(writer, branch)]
    same = [branch for branch in fitting if not isinstance(branch, Primitive) or branch.name == _name(writer)]
    return next(iter(same + fitting), None)


def _same_name(writer: Enum | Fixed | Record, reader: Enum | Fixed | Record) -> bool:
    """Names without their namespaces, as the specification has it; an alias of the reader's will do."""
    known = {_short(name) for name in (reader.name, *reader.aliases)}
    return _short(writer.name) in known


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _name(kind: AvroType) -> str | None:
    return kind.name if isinstance(kind, Primitive) else None
