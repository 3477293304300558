"""The voice of a request: the recording it names, or the checkpoint's own."""

from functools import partial

from antiphon.audio.decode import load_reference_voice
from antiphon.core.errors import MediaError
from antiphon.pipeline.voice_book import PreparedVoice
from antiphon.serving.conversation import DecodePool
from antiphon.serving.errors import BAD_REQUEST, HttpError
from antiphon.serving.media_fetch import MediaFetcher
from antiphon.serving.port import Voices


class VoiceReader:
    """Fetches, decodes and prepares voices."""

    def __init__(self, fetcher: MediaFetcher, pool: DecodePool, book: Voices) -> None:
        self._fetcher = fetcher
        self._pool = pool
        self._book = book

    async def read(self, ref_audio: object) -> PreparedVoice:
        """The voice that *ref_audio* names; None is the default one.

        Raises:
            HttpError: it is no string.
            MediaError: a recording that cannot be had or used; it is never replaced by another voice.
        """
        return await self.prepare(await self.fetch(ref_audio))

    async def fetch(self, ref_audio: object) -> bytes | None:
        """The file that *ref_audio* names; None for None. Raises as `read`."""
        if ref_audio is None:
            return None
        if not isinstance(ref_audio, str):
            raise HttpError(BAD_REQUEST, "ref_audio must be a URI string", param="ref_audio")
        try:
            return await self._fetcher.fetch(ref_audio)
        except MediaError as error:
            raise MediaError(f"ref_audio: {error}") from None

    async def prepare(self, content: bytes | None) -> PreparedVoice:
        """The voice in a file; None is the default one. Raises MediaError."""
        try:
            return await self._pool.run(partial(self._prepare, content))
        except MediaError as error:
            raise MediaError(f"ref_audio: {error}") from None

    def _prepare(self, content: bytes | None) -> PreparedVoice:
        if content is None:
            return self._book.prepare(None)
        return self._book.prepare(load_reference_voice(content))
