"""The Thinker's language model: Qwen3 under the checkpoint's names (`model.*`, `lm_head`)."""

from torch import Tensor, nn
from torch.nn.functional import embedding

from antiphon.config.checkpoint import DecoderConfig
from antiphon.layers.decoder import Decoder
from antiphon.layers.kv_cache import Attend


class LanguageModel(nn.Module):
    """Token ids to embeddings, embeddings to final-norm hidden states, those to logits (an untied head)."""

    def __init__(self, config: DecoderConfig, vocab_size: int) -> None:
        super().__init__()
        self.model = Decoder(config)
        # The checkpoint keeps the embedding beside the decoder's layers, the shared decoder knows no tokens.
        self.model.add_module("embed_tokens", nn.Embedding(vocab_size, config.hidden_size))
        self.lm_head = nn.Linear(config.hidden_size, vocab_size, bias=False)

    def embed(self, ids: Tensor) -> Tensor:
        """[T] int64 → [T, hidden]."""
        return embedding(ids, self.model.get_parameter("embed_tokens.weight"))

    def forward(self, embeds: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """[T, hidden] at *positions* [T] → final-norm hidden [T, hidden]."""
        hidden: Tensor = self.model(embeds, positions, attend)
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., hidden] → [..., vocab] in the model's dtype."""
        logits: Tensor = self.lm_head(hidden)
        return logits
