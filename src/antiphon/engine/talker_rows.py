"""How the host writes the state of a Talker row at the start of a condition."""

from collections.abc import Sequence
from dataclasses import dataclass

from antiphon.engine.talker_draw import tail_of, top_k_of
from antiphon.engine.talker_job import TalkerJob, TalkerMode
from antiphon.layers.code_rows import NUM_COLUMNS, RING_CODES, Column

# A launch that starts conditions is told two more numbers of each row.
SLOT_COLUMN = NUM_COLUMNS
LAST_COLUMN = NUM_COLUMNS + 1  # the row of the condition's last token among the launch's tokens
NUM_START_COLUMNS = NUM_COLUMNS + 2

Rules = tuple[float, float, float]  # temperature, penalty, tail: float32 state of a row


@dataclass(frozen=True)
class RowStart:
    """What the host knows of a row when a condition starts: everything."""

    slot: int
    last_token: int
    position: int  # behind the condition
    length: int
    num_draws: int
    min_draws: int
    max_draws: int
    history: Sequence[int]  # codes the penalty may see, oldest first


def start_columns(start: RowStart, job: TalkerJob, num_codec_ids: int) -> list[int]:
    """The NUM_START_COLUMNS numbers of a row."""
    columns = [0] * NUM_START_COLUMNS
    ring = start.history[-RING_CODES:]
    columns[Column.NUM_HISTORY] = len(ring)
    columns[Column.POSITION] = start.position
    columns[Column.LENGTH] = start.length
    columns[Column.DRAW] = start.num_draws
    columns[Column.MIN_DRAWS] = start.min_draws
    columns[Column.MAX_DRAWS] = start.max_draws
    columns[Column.SEED] = job.seed
    columns[Column.HAS_FILTERS] = int(job.mode is not TalkerMode.UNIT)
    columns[Column.IS_GREEDY] = int(job.is_greedy)
    columns[Column.TOP_K] = top_k_of(job.sampling, num_codec_ids)
    columns[Column.MIN_KEEP] = min(job.sampling.min_keep, num_codec_ids)
    columns[Column.WINDOW] = job.sampling.penalty_window
    columns[Column.RING : Column.RING + len(ring)] = ring
    columns[SLOT_COLUMN] = start.slot
    columns[LAST_COLUMN] = start.last_token
    return columns


def idle_columns(slot: int) -> list[int]:
    """A row that does nothing: padding, and slots before their first condition."""
    columns = [0] * NUM_START_COLUMNS
    columns[Column.IS_DONE] = columns[Column.TOP_K] = columns[Column.MIN_KEEP] = 1
    columns[SLOT_COLUMN] = slot
    return columns


IDLE_RULES: Rules = (1.0, 1.0, -1.0)


def rules_of(job: TalkerJob) -> Rules:
    sampling = job.sampling
    return sampling.temperature, sampling.repetition_penalty, tail_of(sampling)
