"""Whether a command of our image starts something that exists there."""

import ast
from collections.abc import Sequence

from tests.support.typed import typed_problem
from tests.unit.deploy.installed import has_module, scripts_of_the_image, spark_class_knows, spark_has_class


def command_problems(words: Sequence[str]) -> list[str]:
    if not words:
        return ["no command"]
    if len(words) == 1 and " " in words[0]:
        return [f"not in exec form, so a shell would stand between the signal and the program: {words[0]}"]
    program, *arguments = words
    match program, arguments:
        case "python", ["-m", module, *_]:
            return _module_problems(module)
        case "python", ["-c", code]:
            return _code_problems(code)
        case "spark-class", [name, *options]:
            return _spark_class_problems(name, options)
        case "enrich", _:
            problem = typed_problem(arguments)
            return [] if problem is None else [problem]
    return [] if program in scripts_of_the_image() else [f"no such program in the image: {program}"]


def _module_problems(name: str) -> list[str]:
    if not has_module(name):
        return [f"no such module: {name}"]
    if not has_module(f"{name}.__main__"):
        return [f"not a module that can be run: {name}"]
    return []


def _code_problems(code: str) -> list[str]:
    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        return [f"not Python: {code} ({error.msg})"]
    names = {
        name
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    return [f"no such module: {name}" for name in sorted(names) if not has_module(name)]


def _spark_class_problems(name: str, options: Sequence[str]) -> list[str]:
    if not spark_has_class(name):
        return [f"no such class in Spark's jars: {name}"]
    # Spark's daemons read their options in a class of their own, and only in the form `--option value`.
    return [
        f"{name} does not know the option {option}"
        for option in options
        if option.startswith("-") and not spark_class_knows(f"{name}Arguments", option)
    ]
