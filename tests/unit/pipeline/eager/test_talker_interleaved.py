import pytest
import torch

from antiphon.core.errors import ConfigError
from antiphon.pipeline.eager.talker_interleaved import interleaved_generate

EOS = 31
CONDITIONS = [torch.randn(length, 16, generator=torch.Generator().manual_seed(length)) for length in (6, 7, 5, 8)]


def run(talker, noise, attention_type):
    chunks = list(interleaved_generate(talker, CONDITIONS, noise, attention_type=attention_type))
    return [(chunk.start_position, chunk.prompt_len, len(chunk.spoken.codes)) for chunk in chunks]


def test_full_attention_carries_the_cache_from_condition_to_condition(make_talker, recording):
    noise = recording({3: EOS, 6: EOS, 11: EOS, 12: EOS})
    assert run(make_talker(), noise, "full_attention") == [(0, 6, 3), (9, 7, 2), (18, 5, 4), (27, 8, 0)]


def test_sliding_recompute_starts_afresh_from_the_third_condition_on(make_talker, recording):
    noise = recording({3: EOS, 6: EOS, 11: EOS, 12: EOS})
    calls = run(make_talker(), noise, "sliding_recompute")
    assert calls == [(0, 6, 3), (9, 7, 2), (0, 7 + 2 + 5, 4), (0, 5 + 4 + 8, 0)]


@pytest.mark.parametrize("attention_type", ["sliding_window", "reindex"])
def test_attention_types_without_a_rule_here_are_refused(make_talker, recording, attention_type):
    with pytest.raises(ConfigError, match=attention_type):
        run(make_talker(), recording(), attention_type)
