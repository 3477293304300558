"""Tests the law of the codes that the captured step draws, over many seeds, against the slow twin's probabilities."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from antiphon.core.errors import ConfigError
from antiphon.engine.counters import Counters
from antiphon.engine.settings import TalkerSettings
from antiphon.engine.talker_device import TalkerDevice
from antiphon.engine.talker_draw import tail_of, top_k_of
from antiphon.engine.talker_rows import idle_columns
from antiphon.engine.talker_sampling import TalkerSampling, code_probs
from antiphon.layers.code_rows import NUM_COLUMNS, Column
from antiphon.offline.gate.limits import MIN_P_VALUE
from antiphon.offline.gate.subject import talker_of
from antiphon.offline.gate.verdict import Check
from antiphon.pipeline.omni_model import OmniModel
from antiphon.statistics.chi_square import goodness_of_fit

_ROWS = 256  # drawn at once
_FIRST_SEED = 10_000


@dataclass(frozen=True)
class Law:
    """A state from which a code is drawn."""

    name: str
    history: tuple[int, ...]
    has_filters: bool = True
    masks_end: bool = False
    likes_end: bool = False  # the end code is the likeliest: what is masked, and what is not, must show


LAWS = (
    Law("first code", ()),
    Law("filtered", (11, 12, 11, 13, 11)),
    Law("filtered, end likely", (7, 7, 7), likes_end=True),
    Law("filtered, end masked", (7, 7, 7), likes_end=True, masks_end=True),
    Law("duplex, unfiltered", (5, 6, 5), has_filters=False),
)


def check_code_law(
    model: OmniModel, candidate: OmniModel, settings: TalkerSettings, counters: Counters, num_draws: int
) -> list[Check]:
    """Draw *num_draws* codes of each law with *candidate*, and test them against the law that *model* has."""
    device = TalkerDevice(
        talker_of(candidate),
        settings,
        device=candidate.device,
        dtype=talker_of(candidate).emb_text.weight.dtype,
        counters=counters,
    )
    if num_draws < _ROWS:
        raise ConfigError(f"--draws is {num_draws}; a law needs at least {_ROWS} draws")
    checks = []
    for law in LAWS:
        hidden = _hidden(model, law)
        probs = _expected(model, hidden, law)
        counts = _draw_counts(device, hidden.to(candidate.device), law, num_draws)
        outcome = goodness_of_fit(counts, probs)
        checks.append(Check(name=f"p-value: {law.name}", value=outcome.p_value, limit=MIN_P_VALUE, is_at_least=True))
    return checks


def _hidden(model: OmniModel, law: Law) -> Tensor:
    """A final-norm state [H] whose scores spread like a real model's, over a dozen codes or so."""
    head = _head(model)
    generator = torch.Generator().manual_seed(len(law.name))
    picked = torch.randint(head.shape[0] - 1, (12,), generator=generator).to(head.device)
    weights = torch.linspace(1, 0.4, 12, device=head.device)[:, None]
    rows = head[picked].float() * weights
    if law.likes_end:
        rows = torch.cat((rows, head[-1:].float()))
    mixed = rows.sum(0)
    scores = head.float() @ mixed
    return (mixed * 8.0 / scores.abs().max()).to(head.dtype)


def _expected(model: OmniModel, hidden: Tensor, law: Law) -> np.ndarray:
    head = _head(model)
    logits = torch.nn.functional.linear(hidden[None], head)[0].float()
    history = torch.tensor(law.history, dtype=torch.int64, device=logits.device)
    masked_id = head.shape[0] - 1 if law.masks_end else None
    probs = code_probs(logits, history, TalkerSampling(), with_filters=law.has_filters, masked_id=masked_id)
    return probs.double().cpu().numpy()


def _draw_counts(device: TalkerDevice, hidden: Tensor, law: Law, num_draws: int) -> np.ndarray:
    num_ids = device.config.num_codec_ids
    counts = torch.zeros(num_ids, dtype=torch.int64, device=hidden.device)
    template, rules = _row(law, num_ids, hidden.device)
    out = torch.zeros(_ROWS, dtype=torch.int64, device=hidden.device)
    batch = hidden[None].expand(_ROWS, -1).contiguous()
    candidates = device.num_candidates(TalkerSampling().top_k) if law.has_filters else device.num_candidates(0)
    for start in range(0, num_draws, _ROWS):
        rows = template.repeat(_ROWS, 1)
        rows[:, Column.SEED] = torch.arange(start, start + _ROWS, device=hidden.device) + _FIRST_SEED
        device.draw(batch, rows, rules, out, num_candidates=candidates, has_fed=True)
        counts += torch.bincount(out, minlength=num_ids)
    return counts.cpu().numpy()


def _row(law: Law, num_ids: int, device: torch.device) -> tuple[Tensor, Tensor]:
    sampling = TalkerSampling()
    row = torch.tensor(idle_columns(0)[:NUM_COLUMNS])
    row[Column.IS_DONE] = 0
    row[Column.NUM_HISTORY] = len(law.history)
    row[Column.DRAW] = row[Column.STEP] = len(law.history)
    row[Column.MIN_DRAWS] = 1 << 20 if law.masks_end else 0
    row[Column.MAX_DRAWS] = 1 << 20
    row[Column.HAS_FILTERS] = int(law.has_filters)
    row[Column.TOP_K] = top_k_of(sampling, num_ids)
    row[Column.MIN_KEEP] = sampling.min_keep
    row[Column.WINDOW] = sampling.penalty_window
    row[Column.RING : Column.RING + len(law.history)] = torch.tensor(law.history, dtype=torch.int64)
    rule = torch.tensor([sampling.temperature, sampling.repetition_penalty, tail_of(sampling)])
    return row[None].to(device), rule.repeat(_ROWS, 1).to(device)


def _head(model: OmniModel) -> Tensor:
    weight = talker_of(model).head_code[0].weight
    assert isinstance(weight, Tensor)
    return weight.detach()
