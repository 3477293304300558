"""Real-time serving for omni voice models, first of all MiniCPM-o 4.5."""

from importlib import import_module

__version__ = "0.1.0"
__all__ = ["Omni", "OmniOutput", "SamplingParams", "__version__"]

# Loaded when first asked for: `import antiphon` and the command line's help stay without torch.
_HOMES = {
    "Omni": "antiphon.offline.omni",
    "OmniOutput": "antiphon.offline.outputs",
    "SamplingParams": "antiphon.core.sampling",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
