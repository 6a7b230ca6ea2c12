"""A Dockerfile as data: stages of instructions, in the subset of the language that ours uses."""

import json
import re
import shlex
from dataclasses import dataclass, field

_FROM = re.compile(r"(?P<base>\S+)(?:\s+AS\s+(?P<name>\S+))?")


@dataclass(frozen=True)
class Instruction:
    keyword: str
    text: str
    flags: dict[str, str]

    @property
    def is_exec_form(self) -> bool:
        return self.text.startswith("[")

    @property
    def words(self) -> tuple[str, ...]:
        """Its words; of a shell's command line the ones that a shell would see."""
        return tuple(json.loads(self.text) if self.is_exec_form else shlex.split(self.text))

    @property
    def sources(self) -> tuple[str, ...]:
        return self.words[:-1]

    @property
    def target(self) -> str:
        return self.words[-1]

    @property
    def steps(self) -> tuple[tuple[str, ...], ...]:
        """The commands of a RUN that are chained by &&."""
        words = list(self.words)
        steps: list[tuple[str, ...]] = []
        while "&&" in words:
            end = words.index("&&")
            steps.append(tuple(words[:end]))
            words = words[end + 1 :]
        return (*steps, tuple(words))


@dataclass
class Stage:
    base: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def all(self, keyword: str) -> list[Instruction]:
        return [instruction for instruction in self.instructions if instruction.keyword == keyword]

    def last(self, keyword: str) -> Instruction | None:
        return next((one for one in reversed(self.instructions) if one.keyword == keyword), None)

    @property
    def environment(self) -> dict[str, str]:
        pairs = (word.partition("=") for one in self.all("ENV") for word in one.words)
        return {name: value for name, _, value in pairs}


@dataclass(frozen=True)
class Dockerfile:
    stages: list[Stage]

    @property
    def final(self) -> Stage:
        return self.stages[-1]

    def stage(self, name: str) -> Stage:
        return next(stage for stage in self.stages if stage.name == name)

    def line_of(self, stage: Stage) -> list[Stage]:
        """The stages that this one is made from, the outermost image's first, and itself last."""
        parent = next((one for one in self.stages if one.name == stage.base), None)
        return [*(self.line_of(parent) if parent else []), stage]

    def outer_image(self, stage: Stage) -> str:
        return self.line_of(stage)[0].base

    def final_environment(self) -> dict[str, str]:
        return {name: value for one in self.line_of(self.final) for name, value in one.environment.items()}


def parse_dockerfile(text: str) -> Dockerfile:
    stages: list[Stage] = []
    for line in _joined(text):
        keyword, _, rest = line.partition(" ")
        if keyword == "FROM":
            match = _FROM.fullmatch(rest.strip())
            assert match is not None, f"cannot be read: {line}"
            stages.append(Stage(match["base"], match["name"] or ""))
        else:
            stages[-1].instructions.append(_instruction(keyword, rest.strip()))
    return Dockerfile(stages)


def _joined(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return "\n".join(lines).replace("\\\n", " ").split("\n")


def _instruction(keyword: str, rest: str) -> Instruction:
    flags: dict[str, str] = {}
    while rest.startswith("--"):
        flag, _, rest = rest.partition(" ")
        name, _, value = flag[2:].partition("=")
        flags[name] = value
        rest = rest.lstrip()
    return Instruction(keyword, rest, flags)
