"""What a user may call a model (`tiny`, a folder, a hub id) and the folder it stands for."""

import os
import re
from pathlib import Path

from antiphon.config.checkpoint_files import require_folder
from antiphon.core.errors import CheckpointError

TINY = "tiny"
HUB_ID = "openbmb/MiniCPM-o-4_5"
_HUB_PATTERN = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# Of the repository only what the loader reads: no demo media, no remote code.
HUB_FILES = ("*.json", "*.txt", "*.safetensors", "assets/token2wav/*", "assets/HT_ref_audio.wav")


def cache_folder() -> Path:
    """The user's cache folder of Antiphon (`$XDG_CACHE_HOME/antiphon`, by default `~/.cache/antiphon`)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says to ignore a relative path.
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "antiphon"


def tiny_folder() -> Path:
    """The built-in tiny checkpoint, made on first use; another version of its recipe is another folder."""
    from antiphon.pipeline.tiny_checkpoint.checkpoint import fingerprint, make_tiny

    folder = cache_folder() / f"tiny-{fingerprint()}"
    if not (folder / "config.json").is_file():
        try:
            make_tiny(folder, seed=0)
        except CheckpointError as error:
            # A process beside us may have been first: folders appear complete, and hold the same bytes.
            if not (folder / "config.json").is_file():
                raise CheckpointError(f"{error}; set XDG_CACHE_HOME to a folder that can be written") from error
    return folder


def local_folder(source: str | Path) -> Path:
    """The folder of `tiny` or of a path, as it is. Raises CheckpointError when it is no checkpoint's folder."""
    if source == TINY:
        return tiny_folder()
    folder = Path(source).expanduser()
    require_folder(folder)
    return folder


def resolve_source(source: str | Path) -> Path:
    """The local folder of *source*: `tiny`, a folder as it is, or a hub id (downloaded, or found in the hub's cache).

    A folder wins over a hub id of the same spelling. Raises CheckpointError when there is nothing behind the name.
    """
    if isinstance(source, str) and _HUB_PATTERN.fullmatch(source) and not Path(source).exists():
        return _download(source)
    return local_folder(source)


def _download(hub_id: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(hub_id, allow_patterns=list(HUB_FILES)))
    except HFValidationError as error:
        raise CheckpointError(f"{hub_id}: no such folder, and not a valid hub id") from error
    except LocalEntryNotFoundError as error:
        raise CheckpointError(
            f"{hub_id}: no such folder, and the hub cannot be reached and has nothing cached; "
            "check the network, or give the folder of a downloaded checkpoint"
        ) from error
    except HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else "no answer"
        raise CheckpointError(
            f"{hub_id}: no such folder, and the hub refuses it (HTTP {status}); check the name and your access"
        ) from error
    except OSError as error:
        raise CheckpointError(f"{hub_id}: the download failed ({error}); check network and disk space") from error
