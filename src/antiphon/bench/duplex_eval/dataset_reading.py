"""Finds the chosen samples: in a folder, in a manifest, in Parquet files, or behind a hub id."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from antiphon.bench.duplex_eval.samples import Sample, read_sample
from antiphon.bench.duplex_eval.splits import SPLITS
from antiphon.core.errors import ConfigError

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# `data/RTD_OCR-00000-of-00001.parquet` of a repository, `RTD_OCR/0000.parquet` of a converted one.
_SPLIT_OF_FILE = re.compile(rf"(?:^|/)({'|'.join(SPLITS)})(?:[-/.]|$)")
_MANIFESTS = (".json", ".jsonl")

Row = Mapping[str, object]
Download = Callable[[str, Sequence[str]], Path]  # hub id, file patterns → folder


def load_samples(
    dataset: str,
    splits: Sequence[str],
    *,
    media_root: Path | None = None,
    limit: int | None = None,
    ids: Sequence[str] = (),
    download: Download | None = None,
) -> list[Sample]:
    """The samples of *splits*, in the order of splits and files.

    Args:
        dataset: a folder or file (JSON, JSONL, Parquet), or a hub id.
        media_root: where media named in a manifest lie; None: beside the manifest.
        limit: at most so many of each split.
        ids: only these.

    Raises:
        ConfigError: nothing is there, or it is not this data set, or an id of *ids* is nowhere.
    """
    place = Path(dataset).expanduser()
    if not place.exists():
        if not _HUB_ID.fullmatch(dataset):
            raise ConfigError(f"--dataset {dataset}: no such folder or file")
        place = (download or _download)(dataset, [f"*{split}[-/.]*" for split in splits])
    found: dict[str, list[Sample]] = {split: [] for split in splits}
    seen: set[tuple[str, str]] = set()
    for path in _files(place):
        for split, row in _rows(path, splits):
            if split not in found:
                continue
            sample = read_sample(row, split, media_root or path.parent, str(path))
            if (split, sample.sample_id) in seen:
                raise ConfigError(f"{path}: sample {sample.sample_id} of {split} is there twice")
            seen.add((split, sample.sample_id))
            if not ids or sample.sample_id in ids:
                found[split].append(sample)
    if missing := sorted(set(ids) - {sample_id for _, sample_id in seen}):
        raise ConfigError(f"--ids {missing[0]}: no such sample in {', '.join(splits)}")
    samples = [sample for kept in found.values() for sample in kept[:limit]]
    if not samples:
        raise ConfigError(f"--dataset {dataset}: no sample of {', '.join(splits)} is in it")
    return samples


def _files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    files = sorted(path for path in place.rglob("*") if path.suffix in (".parquet", *_MANIFESTS))
    tables = [path for path in files if path.suffix == ".parquet"]
    return tables or [path for path in files if path.suffix in _MANIFESTS]


def _rows(path: Path, splits: Sequence[str]) -> Iterator[tuple[str, Row]]:
    """Each row with its split: its own column, else what the file's name says."""
    match = _SPLIT_OF_FILE.search(path.as_posix())
    named = match[1] if match else ""
    if named and named not in splits:
        return
    for row in _read_table(path) if path.suffix == ".parquet" else _read_manifest(path):
        split = row.get("split") or named
        if not isinstance(split, str) or split not in SPLITS:
            raise ConfigError(f"{path}: a row's split is {split!r}; known: {', '.join(SPLITS)}")
        yield split, row


def _read_manifest(path: Path) -> list[Row]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        lines = [line for line in text.splitlines() if line.strip()]
        rows = [json.loads(line) for line in lines] if path.suffix == ".jsonl" else json.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: not JSON ({error})") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ConfigError(f"{path}: must be a list of samples")
    return rows


def _read_table(path: Path) -> Iterator[Row]:
    if find_spec("pyarrow") is None:
        raise ConfigError(f"{path}: Parquet needs pyarrow; install it with: pip install 'antiphon[eval]'")
    from pyarrow import ArrowInvalid
    from pyarrow.parquet import ParquetFile

    try:
        # Row by row: videos lie inside, and a whole split of them would not fit into memory.
        for batch in ParquetFile(path).iter_batches(batch_size=1):
            yield from batch.to_pylist()
    except ArrowInvalid as error:
        raise ConfigError(f"{path}: not a Parquet file ({error})") from None


def _download(hub_id: str, patterns: Sequence[str]) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(hub_id, repo_type="dataset", allow_patterns=list(patterns)))
    except (LocalEntryNotFoundError, HFValidationError, HfHubHTTPError, OSError) as error:
        raise ConfigError(f"--dataset {hub_id}: not a folder, and the hub does not give it ({error})") from error
