"""What is kept of a run: sound, events, and one result with the times that matter."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from antiphon.client.collector import RECEIVED_AT, EventCollector
from antiphon.client.events import AudioDelta, ListenDecision, SpeakDecision, TextDelta, TranscriptDelta, wrap_event
from antiphon.client.file_run.run import RunPlan, RunRecord
from antiphon.client.media import write_pcm16_wav
from antiphon.client.summaries import metric_mean
from antiphon.core.errors import ConfigError
from antiphon.wire.realtime.json_frame import JsonObject


@dataclass(frozen=True, kw_only=True)
class RunFiles:
    """Where a run is kept."""

    folder: Path

    def write(self, record: RunRecord, result: JsonObject) -> None:
        """Raises ConfigError if the folder cannot be written."""
        collector = record.collector
        sound, rate_hz = collector.audio_bytes(), collector.output_sample_rate_hz
        try:
            chunks = self.folder / "audio_chunks"
            chunks.mkdir(parents=True, exist_ok=True)
            for old in chunks.glob("chunk_*.wav"):
                old.unlink()
            for number, chunk in enumerate(_chunks(collector)):
                write_pcm16_wav(chunks / _chunk_name(number), chunk, sample_rate_hz=rate_hz)
            (self.folder / "output.pcm").write_bytes(sound)
            write_pcm16_wav(self.folder / "output.wav", sound, sample_rate_hz=rate_hz)
            lines = [json.dumps(event, ensure_ascii=False) for event in collector.events]
            (self.folder / "events.jsonl").write_text("\n".join([*lines, ""]), encoding="utf-8")
            document = json.dumps(result, ensure_ascii=False, indent=2)
            (self.folder / "result.json").write_text(document + "\n", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{self.folder}: cannot be written ({error.strerror})") from None


def summarise_run(plan: RunPlan, record: RunRecord, folder: Path, *, requires_audio: bool) -> JsonObject:
    """`result.json`: keys as in vLLM-Omni's demo, and the decisions and what was heard beside them."""
    collector = record.collector
    sound = collector.audio_bytes()
    errors = [event.get("error") for event in collector.errors()]
    timing = _timing(record)
    decisions = list(_decisions(collector, record.began_s))
    spoke = any(decision["decision"] == "speak" for decision in decisions)
    num_chunks = sum(1 for _ in _chunks(collector))
    names = [str(folder / "audio_chunks" / _chunk_name(number)) for number in range(num_chunks)]
    is_ok = (
        not errors and record.close_error is None and not record.is_timed_out and (bool(sound) or not requires_audio)
    )
    return {
        "ok": is_ok,
        "model_decision": "speak" if spoke else "listen",
        "transcript": "".join(collector.response_text(one) for one in collector.response_ids),
        "response_ids": list(collector.response_ids),
        "errors": [
            *errors,
            *([{"code": "session_ended", "message": record.close_error}] if record.close_error else []),
        ],
        "timed_out": record.is_timed_out,
        "output_dir": str(folder),
        "input_s": round(plan.source.duration_s, 3),
        "paced": plan.is_realtime,
        "video_frames_available": len(plan.source.frames),
        "video_frames_sent": record.num_frames_sent,
        "trailing_silence": {"sent_ms": record.trailing_silence_ms, "max_ms": plan.max_trailing_silence_ms},
        "decisions": decisions,
        "responses": [_response(collector, one, record) for one in collector.response_ids],
        "barge_in": _barge_in(plan, record),
        "playback_underrun_s": round(record.underruns_s, 3),
        "audio_bytes": len(sound),
        "audio_chunk_count": num_chunks,
        "audio_files": names,
        "output_sample_rate_hz": collector.output_sample_rate_hz,
        "latency": _latency(record, timing),
        "timing": timing,
    }


def _timing(record: RunRecord) -> JsonObject:
    """Of the first response; it is timed from the commit if it began behind it."""
    collector = record.collector
    if not collector.response_ids:
        return {}
    first_id = collector.response_ids[0]
    created_s = collector.first_received_at("response.created") or 0.0
    is_answer = record.committed_s is not None and record.committed_s <= created_s
    return collector.timing_summary(
        after_s=record.began_s,
        input_committed_at_s=record.committed_s if is_answer else None,
        response_id=first_id,
    )


def _latency(record: RunRecord, timing: JsonObject) -> JsonObject:
    metrics = timing.get("request_metrics")
    if not isinstance(metrics, dict):
        return {}
    collector = record.collector
    made_ms, duration_ms = metric_mean(metrics["audio_generation_ms"]), metric_mean(metrics["audio_duration_ms"])
    texts = [event for event in collector.events if isinstance(wrap_event(event), TranscriptDelta | TextDelta)]
    times = [float(str(event[RECEIVED_AT])) for event in texts]
    return {
        "ttft_ms": metrics["ttft_ms"],
        "ttfp_ms": metrics["ttfp_ms"],
        "rtf": round(made_ms / duration_ms, 4) if made_ms is not None and duration_ms else None,
        "response_generation_ms": made_ms,
        "text_stream_ms": round((times[-1] - times[0]) * 1000, 3) if times else None,
        "transcript_delta_count": len(texts),
        "audio_duration_s": None if duration_ms is None else round(duration_ms / 1000, 3),
        "measurement_origin": metrics["measurement_origin"],
    }


def _decisions(collector: EventCollector, began_s: float) -> Iterator[JsonObject]:
    """When the model listened and when it began to speak, in seconds from the first sample."""
    for raw, at_s in zip(collector.events, collector.event_received_at_s, strict=True):
        event = wrap_event(raw)
        if isinstance(event, ListenDecision):
            yield {"at_s": round(at_s - began_s, 3), "decision": "listen", "reason": event.reason}
        elif isinstance(event, SpeakDecision):
            yield {"at_s": round(at_s - began_s, 3), "decision": "speak", "response_id": event.response_id}


def _response(collector: EventCollector, response_id: str, record: RunRecord) -> JsonObject:
    done = [
        event["response"]
        for event in collector.events
        if event["type"] == "response.done" and event.get("response_id") == response_id
    ]
    response = done[0] if done and isinstance(done[0], dict) else {}
    sound_s = len(collector.audio_bytes(response_id)) / 2 / collector.output_sample_rate_hz
    return {
        "id": response_id,
        "status": response.get("status", "unfinished"),
        "status_details": response.get("status_details"),
        "transcript": collector.response_text(response_id),
        "sent_s": round(sound_s, 3),
        "heard_s": round(record.heard_ms.get(response_id, 0.0) / 1000, 3),
        "usage": response.get("usage"),
    }


def _barge_in(plan: RunPlan, record: RunRecord) -> JsonObject | None:
    if plan.barge_in_at_s is None:
        return None
    if record.barged_in_s is None:
        return {"asked_at_s": plan.barge_in_at_s, "happened": False}
    stopped_s = record.collector.first_received_at(
        "response.done", "output_audio_buffer.cleared", after_s=record.barged_in_s
    )
    return {
        "asked_at_s": plan.barge_in_at_s,
        "happened": True,
        "heard_s": round(record.heard_before_barge_in_s or 0.0, 3),
        "stop_ms": None if stopped_s is None else round((stopped_s - record.barged_in_s) * 1000, 3),
    }


def _chunks(collector: EventCollector) -> Iterator[bytes]:
    for raw in collector.events:
        event = wrap_event(raw)
        if isinstance(event, AudioDelta):
            yield event.pcm


def _chunk_name(number: int) -> str:
    return f"chunk_{number:04d}.wav"
