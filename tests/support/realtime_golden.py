"""One conversation in every dialect, as it stands on the wire; the files in tests/data/dialects hold what is expected.

Run as a program, it writes them anew: read the difference before you keep it.
"""

import json
from pathlib import Path

import numpy as np
from realtime_driving import Drive, float32, loud, quiet

from antiphon.realtime.dialects.dialect import Dialect
from antiphon.realtime.dialects.map_realtime import MapDialect
from antiphon.realtime.dialects.openai import OpenAiDialect
from antiphon.realtime.dialects.vllm import VllmDialect
from antiphon.realtime.dialects.vllm_legacy import VllmLegacyDialect
from antiphon.realtime.script import Answer, Piece, Script, tone

FOLDER = Path(__file__).parents[1] / "data" / "dialects"
DIALECTS: dict[str, Dialect] = {"vllm": VllmDialect(), "vllm-legacy": VllmLegacyDialect(), "openai": OpenAiDialect()}
MAP = "map.realtime"  # whose clients send other frames
SCRIPT = Script(answers=(Answer(pieces=(Piece("Well, ", 400), Piece("yes.", 600))),))
_CREATE = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "And you?"}]}


def conversation(dialect: Dialect) -> list[str]:
    """A turn that is answered, and what a client may do with the answer; one event a line, sound by its length."""
    drive = Drive({"extra_body": {"auto_response": True}}, script=SCRIPT, dialect=dialect)
    rate_hz = drive.session.state.settings.input_format.input_rate_hz
    drive.append(loud(1500, rate_hz))
    drive.append(quiet(600 * rate_hz // 16_000))
    drive.commit()
    drive.run(5)
    item_id = drive.of_type("conversation.item.added")[-1]["item"]["id"]
    drive.send("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=500)
    drive.send("conversation.item.retrieve", item_id=item_id)
    drive.send("conversation.item.delete", item_id=item_id)
    drive.send("conversation.item.create", item=_CREATE)
    drive.send("input_audio_buffer.clear")
    drive.send("output_audio_buffer.clear")
    drive.send("response.cancel", event_id="mine")
    drive.send("nonsense")
    return [_line(event) for event in drive.events]


def map_conversation() -> list[str]:
    """Two turns, the second one interrupted, and what such a client may do wrong."""
    drive = Drive(script=SCRIPT, dialect=MapDialect())
    silence = float32(np.zeros(16_000, np.float32))
    for answer_s in (5.0, 0.07):
        drive.send("input.append", input={"audio": float32(tone(1000, 16_000))})
        drive.send("input.append", input={"audio": silence})
        drive.run(answer_s)
    drive.send("input.append", input={"audio": silence, "force_listen": True})
    drive.run(2)
    drive.send("input.append", input={"audio": "???"})
    drive.send("session.init", payload={})
    drive.send("nonsense")
    drive.send("session.close", reason="user_stop")
    drive.run(1)
    return [_line(event) for event in drive.events]


def _line(event: dict[str, object]) -> str:
    if "audio.delta" in str(event["type"]):
        event = {**event, "delta": f"{len(str(event['delta']))} characters"}
    if event.get("kind") == "audio":
        event = {**event, "audio": f"{len(str(event['audio']))} characters"}
    return json.dumps(event, sort_keys=True, ensure_ascii=False)


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, dialect in DIALECTS.items():
        (FOLDER / f"{name}.jsonl").write_text("\n".join(conversation(dialect)) + "\n", "utf-8")
    (FOLDER / f"{MAP}.jsonl").write_text("\n".join(map_conversation()) + "\n", "utf-8")
