"""Who may hold a session, and until when (specification sections 6.5 and 10)."""

from antiphon.core.ids import IdSource, digest, matches


class Lease:
    """The credentials and the clocks of one session. Only digests of tokens are kept."""

    def __init__(self, ids: IdSource, *, idle_ttl_s: float | None, grace_s: float, now_s: float) -> None:
        self._ids = ids
        self._idle_ttl_s = idle_ttl_s
        self._grace_s = grace_s
        self._last_activity_s = now_s
        self._detached_at_s: float | None = None
        self._token: bytes | None = None
        self._previous: bytes | None = None
        self._has_heard_client = True  # since the last attachment
        self.generation = 1

    def issue(self) -> str:
        """A fresh token; the one before it becomes the previous one."""
        token = self._ids.new_token()
        self._previous, self._token = self._token, digest(token)
        return token

    def accepts(self, token: str) -> bool:
        """Whether *token* may take the session.

        The previous token counts only while detached, and only if the last attachment never delivered a frame: then
        its client may never have seen the new token. While attached two clients would take the session from each other
        for ever.
        """
        is_current = matches(token, self._token)
        is_previous = matches(token, self._previous)
        return is_current or (is_previous and self._detached_at_s is not None and not self._has_heard_client)

    def touch(self, now_s: float) -> None:
        self._last_activity_s = now_s

    def hear(self, now_s: float) -> None:
        """A frame came in over the present attachment."""
        self._has_heard_client = True
        self.touch(now_s)

    def attach(self, now_s: float) -> None:
        self.generation += 1
        self._detached_at_s = None
        self._has_heard_client = False
        self.touch(now_s)

    def detach(self, now_s: float) -> None:
        if self._detached_at_s is None:
            self._detached_at_s = now_s
        self.touch(now_s)

    def retire(self) -> None:
        """The session ends: no token is good any more."""
        self.generation += 1
        self._token = self._previous = None

    def expiry(self, *, is_busy: bool) -> tuple[float, str] | None:
        """When the lease runs out, and why; None: never, as things are."""
        ends = []
        if self._detached_at_s is not None:
            ends.append((self._detached_at_s + self._grace_s, "disconnect_grace_expired"))
        if self._idle_ttl_s is not None and not is_busy:
            ends.append((self._last_activity_s + self._idle_ttl_s, "idle_ttl_expired"))
        return min(ends, default=None)
