import torch

from antiphon.models.code2wav.hift_source import HarmonicSource, NoSourceNoise, SeededSourceNoise

CPU = torch.device("cpu")


def plain_source(num_harmonics: int = 1) -> HarmonicSource:
    source = HarmonicSource(num_harmonics).requires_grad_(False)
    source.l_linear.weight.fill_(1.0)
    source.l_linear.bias.zero_()
    return source


def test_a_steady_pitch_becomes_its_sine() -> None:
    signal = plain_source()(torch.full((1, 50), 100.0), None)[0, 0].atanh()
    inner = signal[5 * 480 : 45 * 480] > 0
    assert abs(int((inner[1:] != inner[:-1]).sum()) - 160) <= 1  # 80 periods in 0.8 s
    assert float(signal.abs().max()) <= 0.1001


def test_pitch_up_to_10_hz_is_unvoiced() -> None:
    signal = plain_source()(torch.tensor([[10.0, 0.0, 10.5]]), None)[0, 0]
    assert not signal[:960].any()
    assert signal[960:].any()


def test_noise_is_loud_only_where_nothing_is_voiced() -> None:
    noise = torch.ones(1, 960, 1)
    source = plain_source()
    f0 = torch.tensor([[0.0, 200.0]])
    added = (source(f0, noise).atanh() - source(f0, None).atanh())[0, 0]
    torch.testing.assert_close(added[:480], torch.full((480,), 0.1 / 3), atol=1e-6, rtol=0)
    torch.testing.assert_close(added[480:], torch.full((480,), 0.003), atol=1e-6, rtol=0)


def test_no_noise_is_none_and_a_seed_repeats_itself() -> None:
    assert NoSourceNoise().draw(3, 2, CPU) is None
    drawn = SeededSourceNoise(4).draw(3, 2, CPU)
    assert drawn is not None
    assert drawn.shape == (1, 3, 2)
    assert torch.equal(drawn, SeededSourceNoise(4).draw(3, 2, CPU))
