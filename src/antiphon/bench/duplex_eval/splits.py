"""The splits of Omni-DuplexEval, the family of each, and the task that its samples set."""

from enum import Enum

from antiphon.core.errors import ConfigError

DATASET = "Hothan/Omni-DuplexEval"
# The commit of the data set's own evaluator whose windows, scales and aggregates are followed here.
PROTOCOL_PIN = "ca3c122b4d4bf67afd6b18ea5e724b4561bdde48"


class Family(Enum):
    RTD = "rtd"  # real-time description
    PR = "pr"  # proactive reminder


class Task(Enum):
    """What a proactive sample asks for."""

    CORRECTION = "correction"
    EVENT = "proactive_reminder"
    POST_EVENT = "post_event_reminder"


RTD_SPLITS = (
    "RTD_world_knowledge",
    "RTD_counting",
    "RTD_fine_grained_movement",
    "RTD_interaction_relation",
    "RTD_OCR",
    "RTD_Omni",
)
PR_TASKS = {
    "PR_correction": Task.CORRECTION,
    "PR_event_reminder": Task.EVENT,
    "PR_post_event_reminder": Task.POST_EVENT,
}
SPLITS = (*RTD_SPLITS, *PR_TASKS)


def family_of(split: str) -> Family:
    return Family.RTD if split in RTD_SPLITS else Family.PR


def chosen_splits(split: str, family: str) -> tuple[str, ...]:
    """The splits that `--split` and `--family` leave.

    Raises:
        ConfigError: an unknown name, or names that exclude each other.
    """
    if split != "all" and split not in SPLITS:
        raise ConfigError(f"--split is {split!r}; known: all, {', '.join(SPLITS)}")
    if family not in ("all", *(kind.value for kind in Family)):
        raise ConfigError(f"--family is {family!r}; known: all, rtd, pr")
    chosen = tuple(
        name for name in SPLITS if split in ("all", name) and family in ("all", family_of(name).value)
    )  # fmt: skip
    if not chosen:
        raise ConfigError(f"--split {split} is not of --family {family}")
    return chosen
