"""The columns of a row's state when codec ids are drawn on the device, shared by the sampling kernel and its twin."""

from enum import IntEnum

RING_CODES = 16  # codes the penalty can look back on


class Column(IntEnum):
    """int64 state of a row. The order groups what a step advances together."""

    CODE = 0  # fed next
    NUM_HISTORY = 1  # codes the penalty may see, however many of them the ring still holds
    POSITION = 2  # of the next token
    LENGTH = 3  # cache entries; behind the position after a piece that a limit cut
    DRAW = 4  # draws of the job: the step of the counter RNG
    STEP = 5  # draws of this condition
    MIN_DRAWS = 6  # the end code is masked below so many draws of the condition
    MAX_DRAWS = 7
    IS_DONE = 8
    SEED = 9
    HAS_FILTERS = 10
    IS_GREEDY = 11
    TOP_K = 12  # ids that may stay; the whole vocabulary where top-k is off
    MIN_KEEP = 13
    WINDOW = 14  # newest codes that the penalty counts
    RING = 15  # the first of RING_CODES; code number i of the history is at i % RING_CODES


NUM_COLUMNS = Column.RING + RING_CODES
NUM_RULES = 3  # float32 state of a row: temperature, penalty, and the probability that top-p drops (below 0: off)

# What a step reports of a row instead of a code.
FILLER = -1  # it was done
POISON = -2  # its scores were not finite: the request must end
