"""Schema resolution: whether a writer's type can be read as a reader's type, by the rules of Avro's specification."""

from enrich.codecs.avro.schemas.types import Array, AvroType, Enum, Fixed, Map, Primitive, Record, Union

_PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


def matches(writer: AvroType, reader: AvroType) -> bool:
    """For two types that are not unions. Types inside them are checked when they are compiled."""
    if isinstance(writer, Primitive) and isinstance(reader, Primitive):
        return writer.name == reader.name or reader.name in _PROMOTIONS.get(writer.name, ())
    if isinstance(writer, Fixed) and isinstance(reader, Fixed):
        return writer.size == reader.size and _same_name(writer, reader)
    if isinstance(writer, Enum | Record) and isinstance(reader, Enum | Record):
        return type(writer) is type(reader) and _same_name(writer, reader)
    return isinstance(writer, Array | Map) and type(writer) is type(reader)


def branch_for(writer: AvroType, reader: Union) -> AvroType | None:
    """The branch as which a value of the writer's type is read: the same type if there is one, else the first match."""
    fitting = [branch for branch in reader.branches if matches(writer, branch)]
    same = [branch for branch in fitting if not isinstance(branch, Primitive) or branch.name == _name(writer)]
    return next(iter(same + fitting), None)


def _same_name(writer: Enum | Fixed | Record, reader: Enum | Fixed | Record) -> bool:
    """Compares names without namespaces, by the specification; an alias of the reader matches too."""
    known = {_short(name) for name in (reader.name, *reader.aliases)}
    return _short(writer.name) in known


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _name(kind: AvroType) -> str | None:
    return kind.name if isinstance(kind, Primitive) else None
