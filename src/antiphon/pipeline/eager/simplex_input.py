"""Embeds the segments of a simplex session. Specification, sections 2.6, 2.7 and 2.10."""

from collections.abc import Sequence

import torch
from torch import Tensor

from antiphon.audio.mel import UNIT_SAMPLES, StreamingMel, offline_mels, pad_first_unit
from antiphon.core.errors import MediaError, PromptError
from antiphon.pipeline.eager.merge import merge_images, merge_media
from antiphon.pipeline.eager.simplex_prompt import SegmentPrompt
from antiphon.pipeline.omni_model import OmniModel
from antiphon.prompt.messages import AudioPart


class SegmentEncoder:
    """Owns the running turn's audio stream: mel buffer and encoder cache. Both start afresh with every turn."""

    def __init__(self, model: OmniModel) -> None:
        self.num_audio_segments = 0  # of the running turn
        self._thinker = model.thinker
        self._device = model.device
        self._num_bins = model.config.audio.num_mel_bins
        self._mel = StreamingMel(redundancy_frames=0, num_bins=self._num_bins)
        self._audio = self._thinker.new_audio_stream()

    @property
    def num_audio_frames(self) -> int:
        """Frames in the audio encoder's cache."""
        return len(self._audio)

    def end_turn(self) -> None:
        self._mel.reset()
        self._audio.reset()
        self.num_audio_segments = 0

    def check_streamed(self, segment: SegmentPrompt, *, is_last: bool) -> None:
        """Refuse audio that one step of the streaming encoder cannot take."""
        if len(segment.clips) > 1:
            raise PromptError(f"a user segment has {len(segment.clips)} audio parts; send one segment for each")
        for clip in segment.clips:
            may_be_short = is_last or self.num_audio_segments == 0
            if len(clip.samples) > UNIT_SAMPLES or (len(clip.samples) < UNIT_SAMPLES and not may_be_short):
                raise MediaError(
                    f"an audio segment has {len(clip.samples)} samples; send {UNIT_SAMPLES} (1 s) at a time, "
                    "fewer only at the end of a turn"
                )

    def encode_system(self, segment: SegmentPrompt) -> Tensor:
        """[T, hidden]. The reference voice goes through the offline encoder without the one-second blocks of chat."""
        mels = [mel for clip in segment.clips for mel in offline_mels(clip.samples, num_bins=self._num_bins)]
        on_device = [torch.from_numpy(mel).to(self._device) for mel in mels]
        return self._embed(segment, self._thinker.encode_audio(on_device, block_mask=False))

    def encode_streamed(self, segment: SegmentPrompt, *, is_last: bool) -> Tensor:
        """[T, hidden] of a user segment. Its audio continues the turn's stream; *is_last* takes all of its rest."""
        return self._embed(segment, [self._step(clip, is_last) for clip in segment.clips])

    def _step(self, clip: AudioPart, is_last: bool) -> Tensor:
        samples = clip.samples if self.num_audio_segments else pad_first_unit(clip.samples)
        self.num_audio_segments += 1
        chunk = self._mel.push(samples, is_last=is_last)
        mel = torch.from_numpy(chunk.mel).to(self._device)
        return self._thinker.encode_audio_step(mel, self._audio, trim_front=chunk.trim_front, trim_end=chunk.trim_end)

    def _embed(self, segment: SegmentPrompt, audio_rows: Sequence[Tensor]) -> Tensor:
        embeds = self._thinker.embed(torch.tensor(segment.ids, dtype=torch.int64, device=self._device))
        strips = [torch.from_numpy(strip).to(self._device) for image in segment.images for strip in image.strips]
        if strips:
            grids = [grid for image in segment.images for grid in image.patch_grids]
            embeds = merge_images(embeds, segment.image_spans, self._thinker.encode_images(strips, grids))
        return merge_media(embeds, segment.audio_spans, audio_rows)
