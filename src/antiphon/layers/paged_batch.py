"""What attention over pages must know about one launch: where each token is written and what it may see."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class PagedBatch:
    """The tokens of one launch: first *num_decodes* rows of one token each, then rows of several.

    A row is one sequence's part. Its last token sees `context_lens` positions, itself included, the one before it one
    fewer. All tensors lie on the device, so that a captured launch reads what later replays put there.
    """

    kv_index: Tensor  # [T] int64: where keys and values are written, block · block_size + offset
    cos: Tensor  # [T, D] float32, of the tokens' positions
    sin: Tensor  # [T, D] float32
    query_start: Tensor  # [B + 1] int32: tokens of row b are [query_start[b], query_start[b + 1])
    context_lens: Tensor  # [B] int32
    tables: Tensor  # [B, blocks] int32
    num_decodes: int
    max_query_len: int  # over the rows after the decodes
