"""Where ids and credentials come from. Passed in, so that tests can know them."""

import hashlib
import hmac
import secrets
from typing import Protocol

TOKEN_BYTES = 32


class IdSource(Protocol):
    def new_hex(self, num_chars: int) -> str:
        """Fresh hexadecimal digits that no one can guess."""

    def new_token(self) -> str:
        """A credential: 32 random bytes in URL-safe base64, 43 characters."""


class RandomIds:
    """Ids from the operating system's generator."""

    def new_hex(self, num_chars: int) -> str:
        return secrets.token_hex((num_chars + 1) // 2)[:num_chars]

    def new_token(self) -> str:
        return secrets.token_urlsafe(TOKEN_BYTES)


class CountingIds:
    """1, 2, 3 …: for tests."""

    def __init__(self) -> None:
        self._count = 0

    def new_hex(self, num_chars: int) -> str:
        self._count += 1
        return f"{self._count:0{num_chars}x}"

    def new_token(self) -> str:
        self._count += 1
        return f"token{self._count:038d}"


def digest(token: str) -> bytes:
    """What is kept of a credential."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def matches(token: str, kept: bytes | None) -> bool:
    """Compare in constant time; nothing matches None."""
    return kept is not None and hmac.compare_digest(digest(token), kept)
