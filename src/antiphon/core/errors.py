"""The one exception tree: what was wrong, where, and what to do about it, each with a stable code."""


class AntiphonError(Exception):
    """Anything a caller can fix or must be told. `str()` is one line fit for a person.

    Attributes:
        code: stable word for machines.
    """

    code = "error"


class CheckpointError(AntiphonError):
    """A checkpoint folder, or a file in it, is missing, incomplete or of another model."""

    code = "bad_checkpoint"


class ConfigError(AntiphonError):
    """A configuration value is unknown, of the wrong type, or out of range."""

    code = "bad_config"


class MediaError(AntiphonError):
    """An image, audio or video input cannot be used."""

    code = "bad_media"


class PromptError(AntiphonError):
    """A prompt cannot be rendered: unknown role, unknown part type, empty where it may not be."""

    code = "bad_prompt"


class ContextLengthError(PromptError):
    """A prompt, or a prompt and what it may generate, does not fit into the model's context."""

    code = "context_length_exceeded"


class SamplingError(AntiphonError):
    """A sampling parameter is unknown or out of range."""

    code = "bad_sampling_params"


class CapacityError(AntiphonError):
    """More was asked of a buffer, cache or slot pool than it holds."""

    code = "capacity_exceeded"


class StateError(AntiphonError):
    """An event came that the present state does not know, or someone used what was lent to another."""

    code = "bad_state"


class EngineError(AntiphonError):
    """A stage gave a request up, or its worker died, through no fault of the request that is known."""

    code = "engine_error"


def error_class(code: str) -> type[AntiphonError]:
    """The class with *code*, for an error that came from another process; EngineError if there is none."""
    waiting = [AntiphonError]
    while waiting:
        found = waiting.pop()
        if found.code == code:
            return found
        waiting += found.__subclasses__()
    return EngineError
