"""The chat template: roles, thoughts, tools and the generation suffix."""

import json

import pytest

from antiphon.core.errors import PromptError
from antiphon.prompt.template import render_chat

QUESTION = {"role": "user", "content": "q"}


def said(content: str, **fields: object) -> dict[str, object]:
    return {"role": "assistant", "content": content, **fields}


def render(*messages: dict[str, object], **switches: object) -> str:
    return render_chat(messages, **{"add_generation_prompt": False, **switches})  # type: ignore[arg-type]


def test_every_message_is_framed_and_no_system_message_is_made_up() -> None:
    text = render({"role": "system", "content": "s"}, QUESTION)
    assert text == "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nq<|im_end|>\n"


@pytest.mark.parametrize(
    ("thinking", "speech", "suffix"),
    [
        (None, None, ""),
        (True, False, ""),
        (False, None, "<think>\n\n</think>\n\n"),
        (None, True, "<|tts_bos|>"),
        (False, True, "<think>\n\n</think>\n\n<|tts_bos|>"),
    ],
)
def test_the_switches_choose_the_generation_suffix(thinking: bool | None, speech: bool | None, suffix: str) -> None:
    text = render(QUESTION, add_generation_prompt=True, enable_thinking=thinking, use_tts_template=speech)
    assert text == f"<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n{suffix}"


def test_a_thought_before_the_last_question_is_left_out() -> None:
    text = render(QUESTION, said("<think>\nt\n</think>\n\na"), QUESTION)
    assert "<|im_start|>assistant\na<|im_end|>\n" in text


def test_a_last_answer_shows_its_thought_and_gets_an_empty_one_without() -> None:
    assert "assistant\n<think>\nt\n</think>\n\na<|im_end|>" in render(QUESTION, said("<think>\nt\n</think>\n\na"))
    assert "assistant\n<think>\n\n</think>\n\na<|im_end|>" in render(QUESTION, said("a"))


def test_an_answer_before_tool_results_shows_only_a_thought_it_has() -> None:
    result = {"role": "tool", "content": "r"}
    assert "assistant\n<think>\nt\n</think>\n\na<|im_end|>" in render(QUESTION, said("<think>t</think>a"), result)
    assert "assistant\na<|im_end|>" in render(QUESTION, said("a"), result)


def test_a_tool_result_written_by_a_user_is_no_question() -> None:
    result = {"role": "user", "content": "<tool_response>\nr\n</tool_response>"}
    assert "<think>\nt\n</think>" in render(QUESTION, said("<think>t</think>a"), result)


def test_the_same_question_asked_twice_counts_at_its_last_place() -> None:
    assert "<think>" not in render(QUESTION, said("<think>t</think>a"), QUESTION)


def test_tool_calls_follow_the_answer() -> None:
    calls = [{"function": {"name": "f", "arguments": {"ä": 1}}}, {"name": "g", "arguments": '{"b": 2}'}]
    written = '<tool_call>\n{"name": "f", "arguments": {"ä": 1}}\n</tool_call>\n'
    written += '<tool_call>\n{"name": "g", "arguments": {"b": 2}}\n</tool_call><|im_end|>\n'
    assert render(said("", tool_calls=calls), QUESTION).startswith(f"<|im_start|>assistant\n{written}")
    assert render(said("a", tool_calls=calls), QUESTION).startswith(f"<|im_start|>assistant\na\n{written}")


def test_tool_results_in_a_row_share_one_user_message() -> None:
    text = render(QUESTION, {"role": "tool", "content": "1"}, {"role": "tool", "content": "2"})
    responses = "\n<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response>"
    assert text.endswith(f"<|im_start|>user{responses}<|im_end|>\n")


def test_tools_stand_in_the_system_message_one_json_line_each() -> None:
    tools = [{"function": {"name": "<b>", "n": n}} for n in range(2)]
    alone = render(QUESTION, tools=tools)
    assert alone.startswith("<|im_start|>system\n# Tools\n\n")
    assert "<tools>\n" + "".join(json.dumps(tool) + "\n" for tool in tools) + "</tools>\n\n" in alone
    with_system = render({"role": "system", "content": "s"}, QUESTION, tools=tools)
    assert with_system.startswith("<|im_start|>system\ns\n\n# Tools\n\n")
    assert with_system.count("<|im_start|>system") == 1


def test_a_custom_template_replaces_ours() -> None:
    template = "{% for message in messages %}[{{ message.role }}: {{ message.content }}]{% endfor %}{{ eos_token }}"
    assert render(QUESTION, template=template) == "[user: q]<|im_end|>"


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}",
        "{% for message in messages %}",
        "{{ raise_exception('no') }}",
        "{{ 1 / 0 }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].content.format(1).x.y }}",
    ],
)
def test_a_template_that_fails_or_reaches_out_of_its_sandbox_is_refused(template: str) -> None:
    with pytest.raises(PromptError, match="the chat template failed"):
        render(QUESTION, template=template)


def test_a_conversation_without_messages_is_refused() -> None:
    with pytest.raises(PromptError, match="no messages"):
        render_chat([])
