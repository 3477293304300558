"""The Talker: what the Thinker said in, scores of the next 25 Hz codec id out."""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, relu

from antiphon.config.checkpoint import TalkerConfig
from antiphon.layers.decoder import Decoder
from antiphon.layers.kv_cache import Attend


class Projector(nn.Module):
    """Two linear layers with a ReLU between: Thinker hidden rows to the Talker's width."""

    def __init__(self, in_size: int, out_size: int) -> None:
        super().__init__()
        self.linear1 = nn.Linear(in_size, out_size)
        self.linear2 = nn.Linear(out_size, out_size)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear2(relu(self.linear1(x)))
        return out


class Talker(nn.Module):
    """A small Llama over conditions and codec ids (model specification, section 3). Names are the checkpoint's.

    The checkpoint's `model.embed_tokens` and `projector_spk` are never used at inference and have no place here; its
    weight-normed head arrives folded into the plain `head_code.0.weight`. No batch dimension: tokens are [T, H].
    """

    def __init__(self, config: TalkerConfig) -> None:
        super().__init__()
        hidden_size = config.decoder.hidden_size
        self.config = config
        self.model = Decoder(config.decoder)
        self.projector_semantic = Projector(config.llm_hidden_size, hidden_size)
        self.emb_text = nn.Embedding(config.num_text_ids, hidden_size)  # has more rows than the Thinker's vocabulary
        self.emb_code = nn.ModuleList([nn.Embedding(config.num_codec_ids, hidden_size)])
        self.head_code = nn.ModuleList([nn.Linear(hidden_size, config.num_codec_ids, bias=False)])

    @property
    def device(self) -> torch.device:
        return self.emb_text.weight.device

    def condition(self, ids: Tensor, hidden: Tensor, *, normalized: bool | None = None) -> Tensor:
        """What one spoken token sounds like: its text embedding plus its projected hidden row.

        Args:
            ids: Thinker ids to speak, [n] int64.
            hidden: the Thinker's final-norm row of the *same* ids, [n, llm_hidden].
            normalized: bring projected rows to length 1; None means what the checkpoint says.

        Returns:
            [n, H] without any closing special.
        """
        projected = self.projector_semantic(hidden)
        if self.config.normalize_projected if normalized is None else normalized:  # without it the voice collapses
            projected = normalize(projected, dim=-1)
        out: Tensor = self.emb_text(ids) + projected
        return out

    def embed_text(self, ids: Tensor) -> Tensor:
        """Text embeddings [n, H] of Thinker ids [n] int64; text_eos and audio_bos are rows of this table too."""
        out: Tensor = self.emb_text(ids)
        return out

    def embed_codes(self, codes: Tensor) -> Tensor:
        """Embeddings [n, H] of codec ids [n] int64."""
        out: Tensor = self.emb_code[0](codes)
        return out

    def forward(self, embeds: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Final-norm hidden rows [T, H] of *embeds* [T, H] at *positions* [T] int64."""
        out: Tensor = self.model(embeds, positions, attend)
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores [..., num_codec_ids] float32 of hidden rows [..., H]; the last id ends the speech."""
        out: Tensor = self.head_code[0](hidden).float()
        return out
