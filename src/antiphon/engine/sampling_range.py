"""One check for every sampling parameter: inside its range, and a number at all."""

from antiphon.core.errors import SamplingError


def require_range(name: str, value: float, low: float, high: float = float("inf"), *, above: bool = False) -> None:
    """Raise SamplingError unless low <= value <= high, finite (with *above*: low < value)."""
    inside = (low < value if above else low <= value) and value <= high and value != float("inf")
    if not inside:  # NaN compares false everywhere and ends here
        bounds = f"{'above' if above else 'at least'} {low:g}" + ("" if high == float("inf") else f", at most {high:g}")
        raise SamplingError(f"{name} is {value!r}; it must be {bounds}")
