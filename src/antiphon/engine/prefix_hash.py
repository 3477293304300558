"""Names the content of a KV block: a hash chained over everything before it, its token ids and the media it covers."""

import struct
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

_HASH_BYTES = 32  # strong: an equal hash is taken for equal content, between any two clients
UNSHARED = -1
_OFFSETS = struct.Struct("<qqq")


@dataclass(frozen=True)
class MediaSpan:
    """Token positions [start, end) whose embeddings come from media; spans of a sequence are in order and disjoint.

    Attributes:
        digest: strong hash of the media and of what decides its rows (size, mode, rate). Empty: unknown, so this span
            and all that follows it are never shared.
        id: the owner's own name for the rows; not part of the content. `UNSHARED`: no media stands there, the positions
            only must be computed.
    """

    start: int
    end: int
    digest: bytes
    id: int = 0

    def moved(self, shift: int) -> "MediaSpan":
        return MediaSpan(self.start + shift, self.end + shift, self.digest, self.id)


def block_hash(parent: bytes, ids: Sequence[int], start: int, media: Sequence[MediaSpan]) -> bytes | None:
    """Name the block that holds *ids* at positions *start* onwards.

    Args:
        parent: hash of the block before it, empty for the first.
        ids: its token ids, a full block.
        start: position of the first of them.
        media: all spans of the sequence.

    Returns:
        32 bytes, or None if the block covers media without a digest.
    """
    content = blake2b(digest_size=_HASH_BYTES)
    content.update(parent or bytes(_HASH_BYTES))
    content.update(array("q", ids).tobytes())
    for span in media[bisect_right(media, start, key=lambda span: span.end) :]:
        if span.start >= start + len(ids):
            break
        if not span.digest:
            return None
        # Which rows of the media stand here, so that a clip cut elsewhere is another block.
        content.update(_OFFSETS.pack(span.start - start, span.end - span.start, len(span.digest)))
        content.update(span.digest)
    return content.digest()
