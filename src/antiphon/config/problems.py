"""What is wrong with a configuration: one line per problem, and the nearest valid name for a misspelt one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from antiphon.core.errors import ConfigError


@dataclass(frozen=True)
class Problem:
    """One thing to mend. `where` is a file with line, a flag or a variable; `message` says what and what to do."""

    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


class DeployError(ConfigError):
    """The deploy configuration cannot be used; `problems` holds every reason, `str()` joins them to one line."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def hint(name: str, known: Iterable[str]) -> str:
    """The tail of an unknown-name message: the nearest known name, or all of them when none is near."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
