import torch

from antiphon.models.code2wav.code2wav import Code2Wav
from antiphon.models.code2wav.dit import FullAttend


def test_a_masked_row_is_the_row_alone_where_frames_count(code2wav: Code2Wav) -> None:
    dit = code2wav.flow.decoder.estimator
    x, mu, cond = torch.randn(3, 2, 6, 9)
    speaker, modulation = torch.randn(2, 6), dit.modulation(torch.tensor([0.3]))
    mask = torch.arange(9) < torch.tensor([[9], [5]])
    both, _ = dit(x, mu, speaker, cond, modulation, FullAttend(mask), dit.empty_conv_past(2))
    alone, _ = dit(
        x[1:, :, :5], mu[1:, :, :5], speaker[1:], cond[1:, :, :5], modulation, FullAttend(), dit.empty_conv_past(1)
    )
    torch.testing.assert_close(both[1:, :, :5], alone)


def test_convolutions_continue_where_the_chunk_before_ended(code2wav: Code2Wav) -> None:
    block = code2wav.flow.decoder.estimator.blocks[0].conv
    x, start = torch.randn(1, 7, 12), torch.zeros(1, 24, 2)
    whole, _ = block(x, start)
    first, past = block(x[:, :1], start)
    second, _ = block(x[:, 1:], past)
    torch.testing.assert_close(torch.cat((first, second), dim=1), whole)


def test_one_row_of_modulation_serves_all_rows(code2wav: Code2Wav) -> None:
    dit = code2wav.flow.decoder.estimator
    table = dit.modulation(torch.tensor([0.0, 0.4, 0.9]))
    assert table.blocks.shape == (3, 2, 108)
    single = dit.modulation(torch.tensor([0.4]))
    torch.testing.assert_close(table.row(1).blocks, single.blocks)
    torch.testing.assert_close(table.row(1).final, single.final)
