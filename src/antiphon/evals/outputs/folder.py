"""Reads and fills a folder of outputs. What is finished stays finished: a run that broke off goes on where it was.

`outputs.jsonl` has a line for each output, the last one of an id counts; `run.json` says what made them; the recordings
of a run lie in `wavs`.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import soundfile

from antiphon.core.errors import ConfigError
from antiphon.evals.items import Output
from antiphon.evals.outputs.lines import parse_line, render_line
from antiphon.evals.speech.sound import Sound

OUTPUTS, RUN = "outputs.jsonl", "run.json"
_WAVS = "wavs"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_NAME_CHARS = 80


def read_outputs(folder: Path) -> list[Output]:
    """All outputs in the order of their first lines.

    Raises:
        ConfigError: there is no such file or nothing in it, or a line (named as FILE:LINE) is not as it should be.
    """
    found = _read(folder / OUTPUTS)
    if not found:
        raise ConfigError(f"{folder / OUTPUTS}: holds no outputs")
    return list(found.values())


def read_run(folder: Path) -> Mapping[str, object]:
    """What `run.json` says; empty where there is none. Raises ConfigError if it cannot be read."""
    path = folder / RUN
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: must be an object")
    return found


class OutputWriter:
    """A folder that is being filled by one run.

    Args:
        facts: what makes outputs belong together; a folder that was begun with others is refused.
        overwrite: forget what the folder holds.

    Raises:
        ConfigError: the folder belongs to another run, or cannot be written.
    """

    def __init__(self, folder: Path, facts: Mapping[str, object], *, overwrite: bool = False) -> None:
        self.folder = folder
        self._path = folder / OUTPUTS
        earlier = {} if overwrite else read_run(folder)
        changed = sorted(key for key in facts if key in earlier and earlier[key] != facts[key])
        if changed:
            key = changed[0]
            raise ConfigError(
                f"{folder} holds outputs of another run: {key} was {earlier[key]!r} and is {facts[key]!r} now; take "
                "another folder, or --overwrite"
            )
        self.finished = {} if overwrite or not self._path.is_file() else _read(self._path)
        self.finished = {item_id: output for item_id, output in self.finished.items() if not output.error}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if overwrite:
                self._path.unlink(missing_ok=True)
            elif self._path.is_file():
                _mend_end(self._path)
        except OSError as error:
            raise ConfigError(f"{folder}: {error.strerror}") from None
        self.note({**earlier, **facts})

    def note(self, facts: Mapping[str, object]) -> None:
        """Write `run.json`."""
        text = json.dumps(facts, indent=1, ensure_ascii=False)
        try:
            (self.folder / RUN).write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{self.folder / RUN}: cannot be written ({error.strerror})") from None

    def save_sound(self, item_id: str, sound: Sound) -> Path:
        """Write an output's speech and return its file."""
        path = self.folder / _WAVS / f"{file_name(item_id)}.wav"
        part = path.with_name(f"{path.name}.part")
        # Scaled as samples are read, so that 16 bits are written as they came.
        samples = np.clip(np.rint(sound.samples * np.float32(32768)), -32768, 32767).astype(np.int16)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(part, samples, sound.rate_hz, format="WAV", subtype="PCM_16")
            part.replace(path)
        except (OSError, soundfile.LibsndfileError) as error:
            raise ConfigError(f"{path}: cannot be written ({error})") from None
        return path

    def add(self, output: Output) -> None:
        """Append *output*."""
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(render_line(output, self.folder) + "\n")
        except OSError as error:
            raise ConfigError(f"{self._path}: cannot be written ({error.strerror})") from None


def file_name(item_id: str) -> str:
    """*item_id* as a file's name; ids that differ have names that differ."""
    name = _UNSAFE.sub("_", item_id)[:_MAX_NAME_CHARS].lstrip(".")
    if name == item_id:
        return name
    return f"{name}-{hashlib.sha256(item_id.encode()).hexdigest()[:8]}"


def _mend_end(path: Path) -> None:
    """End the last line of *path*, or take it away if it was cut off, so that lines can be added."""
    content = path.read_bytes()
    last = content[content.rfind(b"\n") + 1 :]
    if not last:
        return
    try:
        parse_line(last.decode("utf-8", errors="replace"), str(path), path.parent)
    except ConfigError:
        os.truncate(path, len(content) - len(last))
        return
    with path.open("ab") as file:
        file.write(b"\n")


def _read(path: Path) -> dict[str, Output]:
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text") from None
    has_cut_line = bool(lines[-1].strip())  # no line break at the end: the writer was killed within the line
    found: dict[str, Output] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            output = parse_line(line, f"{path}:{number}", path.parent)
        except ConfigError:
            if has_cut_line and number == len(lines):
                break
            raise
        found[output.truth.item_id] = output
    return found
