import pytest
import torch

from antiphon.models.code2wav.spectrum import analyse, synthesise


@pytest.mark.parametrize("num_samples", [480, 1_040])
def test_synthesis_inverts_analysis(num_samples: int) -> None:
    samples = torch.randn(2, num_samples)
    real, imaginary = analyse(samples, 16, 4).chunk(2, dim=1)
    torch.testing.assert_close(synthesise(real, imaginary, 16, 4), samples, atol=1e-5, rtol=0)


def test_synthesis_of_any_spectrum_is_the_inverse_transform_of_torch() -> None:
    real, imaginary = torch.randn(2, 3, 9, 31)
    theirs = torch.istft(torch.complex(real, imaginary), 16, 4, window=torch.hann_window(16))
    torch.testing.assert_close(synthesise(real, imaginary, 16, 4), theirs, atol=1e-5, rtol=0)
