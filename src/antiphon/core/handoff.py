"""How the text of an answer reaches the Talker."""

from enum import Enum


class Handoff(str, Enum):
    """How text reaches the Talker."""

    SPAN = "span"  # the whole reply conditions it
    STREAM = "stream"  # ten tokens at a time, so that speech starts before the text has ended
