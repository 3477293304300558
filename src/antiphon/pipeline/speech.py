"""Numbers of the speech path that several parts share."""

SPEECH_RATE_HZ = 24_000
SAMPLES_PER_CODE = 960
PIECE_TOKENS = 10  # text tokens of one streamed condition, as in training
PIECE_CODES = 500  # the most codes of one streamed condition
