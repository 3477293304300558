"""In which order media options were given: typer collects each option by itself, a prompt needs them interleaved."""

from collections.abc import Mapping, Sequence

MEDIA_OPTIONS = {"--image": "image", "--audio": "audio", "--video": "video"}


def media_order(args: Sequence[str], values: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """The media of a command line as (kind, value), in the order of its arguments.

    Args:
        args: the command line as given, `--image a.png` or `--image=a.png`.
        values: what the parser found for each kind. If *args* do not lead to the same (because another option's value
            looks like a media option), the order is: images, audios, videos.
    """
    found: list[tuple[str, str]] = []
    for place, argument in enumerate(args):
        name, has_value, value = argument.partition("=")
        if name in MEDIA_OPTIONS and has_value:
            found.append((MEDIA_OPTIONS[name], value))
        elif argument in MEDIA_OPTIONS and place + 1 < len(args):
            found.append((MEDIA_OPTIONS[argument], args[place + 1]))
    grouped = [(kind, value) for kind in MEDIA_OPTIONS.values() for value in values.get(kind, ())]
    return found if sorted(found) == sorted(grouped) else grouped
