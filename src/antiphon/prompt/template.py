"""Chat messages to prompt text through a jinja template: ours, or one that a user brings."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files

from jinja2 import Template, TemplateError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import pass_context

from antiphon.core.errors import PromptError


@lru_cache(maxsize=1)
def default_template() -> str:
    """The checkpoint's chat markup, as a template of our own."""
    return files("antiphon.prompt").joinpath("templates/minicpmo45.jinja").read_text(encoding="utf-8")


def render_chat(
    messages: Sequence[Mapping[str, object]],
    *,
    add_generation_prompt: bool = True,
    enable_thinking: bool | None = None,
    use_tts_template: bool | None = None,
    tools: Sequence[Mapping[str, object]] | None = None,
    template: str | None = None,
    shield: Callable[[str], str] = str,
) -> str:
    """Render *messages* (role, content as a string, and for an assistant perhaps tool_calls).

    Args:
        enable_thinking: False writes an empty thought in front of the answer; None leaves the template's default.
        use_tts_template: True ends the prompt with the token after which the answer is spoken.
        tools: JSON schemas of the functions the model may call.
        template: jinja text instead of the built-in one; it runs in a sandbox.
        shield: applied to every JSON text the template makes of tools and arguments, before it is written.

    Raises:
        PromptError: no messages, or the template fails.
    """
    if not messages:
        raise PromptError("the conversation has no messages")
    switches = {"enable_thinking": enable_thinking, "use_tts_template": use_tts_template}
    try:
        return _compile(default_template() if template is None else template).render(
            messages=messages,
            tools=tools or None,
            add_generation_prompt=add_generation_prompt,
            bos_token="<|im_start|>",
            eos_token="<|im_end|>",
            _shield=shield,
            # A template tells "not given" from "false", so an open switch is left out.
            **{name: value for name, value in switches.items() if value is not None},
        )
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        raise PromptError(f"the chat template failed: {error}") from error


@lru_cache(maxsize=8)
def _compile(text: str) -> Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    return environment.from_string(text)


@pass_context
def _to_json(context: Context, value: object, indent: int | None = None) -> str:
    """JSON as the model saw it in training: not escaped for HTML or ASCII, keys in their given order."""
    shield: Callable[[str], str] = context["_shield"]
    return shield(json.dumps(value, ensure_ascii=False, indent=indent))


def _refuse(message: str) -> None:
    raise TemplateError(message)
