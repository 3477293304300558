"""What the Thinker engine needs of a model: configuration, embedding, decoder stack and head."""

from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear

from antiphon.config.checkpoint import ModelConfig
from antiphon.layers.decoder import Decoder
from antiphon.layers.parallel import ALONE, ParallelGroup, shard_vocabulary
from antiphon.layers.stacked_decoder import StackedDecoder


class LanguageParts(Protocol):
    """Decoder (which holds `embed_tokens.weight`) and output head."""

    @property
    def model(self) -> Decoder: ...

    @property
    def lm_head(self) -> nn.Linear: ...


class TextModel(Protocol):
    """A model whose text side is a decoder with an untied head."""

    @property
    def config(self) -> ModelConfig: ...

    @property
    def llm(self) -> LanguageParts: ...


class TextWeights:
    """The text side's weights on *device*, stacked, and of several ranks this one's share.

    Taking the share of one of several ranks leaves *model*'s text side without weights; its encoders stay whole.
    """

    def __init__(self, model: TextModel, *, device: torch.device, group: ParallelGroup = ALONE) -> None:
        self.config, self.group = model.config, group
        self.vocab_size = model.config.vocab_size
        self.decoder = StackedDecoder(model.llm.model, device=device, group=group)
        self._embedding = model.llm.model.get_parameter("embed_tokens.weight").detach().to(device)
        head = model.llm.lm_head
        self._head = shard_vocabulary(head.weight.detach(), group).to(device)
        if group.size > 1:
            head.weight = nn.Parameter(head.weight.detach().new_empty(0), requires_grad=False)
        if device.type == "cuda":
            torch.cuda.synchronize(device)  # the stage's stream does not wait for the one that stacked the weights

    @property
    def dtype(self) -> torch.dtype:
        return self._embedding.dtype

    def embed(self, ids: Tensor) -> Tensor:
        """[T] int64 → [T, hidden]."""
        return embedding(ids, self._embedding)

    def logits(self, hidden: Tensor) -> Tensor:
        """[B, hidden] → [B, vocab] in the weights' dtype, on every rank."""
        return self.group.join(linear(hidden, self._head))[:, : self.vocab_size]
