"""The producer's end of a ring in a process of its own. Arguments: address, number of messages, rows of each."""

import sys

import torch

from antiphon.pipeline.connectors.shared_memory import SharedMemoryOutlet
from antiphon.pipeline.encoding import MessageEncoding
from antiphon.pipeline.messages import MESSAGES, SpokenPiece


def message(number: int, rows: int) -> SpokenPiece:
    """Content and size follow from the number, so that the reader can check every byte."""
    size = rows + number % 7
    values = (
        (torch.arange(size * 3, dtype=torch.int32) + number).view(torch.uint8).view(torch.bfloat16).reshape(size, 6)
    )
    return SpokenPiece(request_id=f"r{number % 5}", epoch=number, ids=(number,), rows=values, is_last=number % 3 == 0)


if __name__ == "__main__":
    outlet = SharedMemoryOutlet(sys.argv[1], MessageEncoding(MESSAGES), use_checksum=True)
    for index in range(int(sys.argv[2])):
        outlet.put(message(index, int(sys.argv[3])), timeout_s=30)
    outlet.close()
