"""Users' expressions over columns, evaluated by workers with Spark's answers. `compile_expression` takes, in the
driver, what Spark has made of an expression and makes a function of Arrow columns of it, or says why only Spark can
evaluate it.

Whoever plans a stage compiles; workers call `Compiled.evaluate`. It knows no Kafka, no configuration, no other room.
"""

from enrich.stage.compute.catalyst import Compiler, compile_expression
from enrich.stage.compute.compiled import Compiled, NotCompiled

__all__ = ["Compiled", "Compiler", "NotCompiled", "compile_expression"]
