"""Where a seat's duplex decisions keep their numbers on the device, shared by the kernels and their twin."""

from enum import IntEnum

RING_IDS = 512  # recorded ids that the repetition penalty can look back on
MAX_CANDIDATES = 128  # ids that the second draw chooses among, unless a rule needs the whole vocabulary


class Column(IntEnum):
    """int64 numbers of a seat."""

    IS_GREEDY = 0
    IS_TURN_OPEN = 1
    TOP_K = 2  # 0: off
    LISTEN_TOP_K = 3  # 0: off
    SEED = 4
    DRAW_STEP = 5  # draws of the counter RNG so far
    WINDOW = 6  # newest recorded ids that the penalty counts: the places of the ring
    NUM_HISTORY = 7  # ids recorded so far
    RING = 8  # the first of RING_IDS; unused places hold a forbidden id, which no penalty changes


NUM_COLUMNS = Column.RING + RING_IDS


class Rule(IntEnum):
    """float32 numbers of a seat."""

    TEMPERATURE = 0
    TOP_P = 1  # 0: off
    LISTEN_PROB_SCALE = 2
    REPETITION_PENALTY = 3
    LENGTH_PENALTY = 4


NUM_RULES = len(Rule)


class Role(IntEnum):
    """Ids that the decision knows by role, in this order."""

    CHUNK_EOS = 0
    TURN_EOS = 1
    TOKENIZER_EOS = 2
    LISTEN = 3
    TTS_BOS = 4


# A decision: the id that is fed, and above it what the host must know to follow.
ID_MASK = 2**32 - 1
RECORDED = 2**32  # it entered the history
REPLACED = 2**33  # a listen was drawn, inside an open turn
