import torch

from antiphon.models.code2wav.s3_tokenizer import Codebook, S3Config, S3Tokenizer, conv_len

CONFIG = S3Config(num_mel_bins=5, size=64, num_blocks=1, inner_size=32, memory_kernel=7, num_digits=8)


def test_sizes_are_read_back_from_the_shapes_they_make() -> None:
    weights = S3Tokenizer(CONFIG).state_dict()
    assert S3Config.from_shapes({name: tuple(value.shape) for name, value in weights.items()}) == CONFIG


def test_each_convolution_halves_the_length_rounding_up() -> None:
    assert conv_len(torch.tensor([1, 2, 3, 4, 5])).tolist() == [1, 1, 2, 2, 3]


def test_digits_are_little_endian_and_round_at_half_of_a_scaled_tanh() -> None:
    book = Codebook(CONFIG).requires_grad_(False)
    book.project_down.weight.zero_()
    # tanh of the last is 0.5003: between the plain threshold and the scaled one, so it is still the middle digit.
    book.project_down.bias.copy_(torch.tensor([9.0, -9.0, 0.0, 9.0, 0.0, 0.0, 0.0, 0.5497]))
    codes, _ = book(torch.zeros(1, 1, 64))
    digits = [2, 0, 1, 2, 1, 1, 1, 1]
    assert int(codes) == sum(digit * 3**place for place, digit in enumerate(digits))
