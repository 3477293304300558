"""Would a player have run dry? Playback starts at the first sound and takes samples at their own rate."""

from collections.abc import Sequence

from antiphon.bench.timeline import AudioArrival

DEFAULT_THRESHOLD_S = 0.1


def underrun_s(audios: Sequence[AudioArrival]) -> float:
    """The longest that playback was behind, in seconds: 0 if every event came before it was needed.

    Before each later event, the time since the first sound is compared with the sound received until then. The largest
    lack is also how long a player that stops and waits would have waited in all.
    """
    worst_s, received_s = 0.0, 0.0
    first_s: float | None = None
    for arrival in audios:
        if not arrival.num_frames:
            continue
        if first_s is None:
            first_s = arrival.at_s
        else:
            worst_s = max(worst_s, arrival.at_s - first_s - received_s)
        received_s += arrival.duration_s
    return worst_s
