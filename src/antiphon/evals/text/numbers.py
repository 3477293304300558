"""Spells numbers in English, so that "20" and "twenty" are the same words."""

import re

# fmt: off
_ONES = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]
# fmt: on
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_SCALES = ((1_000_000_000, "billion"), (1_000_000, "million"), (1_000, "thousand"), (100, "hundred"))
_IRREGULAR = {"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth"}
_IRREGULAR["twelve"] = "twelfth"
# Digits, with commas in groups or a fraction; then an ordinal's ending or a sign of percent.
_NUMBER = re.compile(r"(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(st|nd|rd|th)?(\s?%)?(?!\w)", re.IGNORECASE)
_MAX_DIGITS = 12  # longer ones are read digit by digit


def spell_numbers(text: str) -> str:
    """*text* with its numbers, ordinals and percentages in words."""
    return _NUMBER.sub(_spell_match, text)


def cardinal(number: int) -> str:
    """*number* in words, without "and"."""
    if number < 20:
        return _ONES[number]
    if number < 100:
        rest = number % 10
        return _TENS[number // 10 - 2] + (f" {_ONES[rest]}" if rest else "")
    size, name = next(scale for scale in _SCALES if number >= scale[0])
    rest = number % size
    return f"{cardinal(number // size)} {name}" + (f" {cardinal(rest)}" if rest else "")


def ordinal(number: int) -> str:
    """*number* as a place in a row."""
    head, _, last = cardinal(number).rpartition(" ")
    regular = f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th"
    return f"{head} {_IRREGULAR.get(last, regular)}".strip()


def _spell_match(found: re.Match[str]) -> str:
    digits, fraction, ending, percent = found.group(1).replace(",", ""), found.group(2), found.group(3), found.group(4)
    if len(digits) > _MAX_DIGITS:
        words = _one_by_one(digits)
    elif ending and not fraction:
        words = ordinal(int(digits))
    else:
        words = cardinal(int(digits))
    if fraction:
        words += f" point {_one_by_one(fraction[1:])}"
    return words + (" percent" if percent else "")


def _one_by_one(digits: str) -> str:
    return " ".join(_ONES[int(digit)] for digit in digits)
