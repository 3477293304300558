"""The system messages the model was trained with, one for each way of speaking.

The texts are part of the checkpoint's interface (model specification 2.9): another wording gives another voice.
"""

from dataclasses import dataclass

from antiphon.core.errors import PromptError
from antiphon.prompt.messages import AudioPart, Message, TextPart

DEFAULT_TEXT = "You are a helpful assistant. You can accept audio and text input and output voice and text."
# Asks for a built-in voice where there is no recording to clone.
_NO_RECORDING = "Use the <reserved_53> voice."


@dataclass(frozen=True)
class _Texts:
    before: str  # stands in front of the reference recording
    after: str | None  # and this behind it


_CLONE = "Clone the voice in the provided audio prompt."
_CLONE_ZH = "模仿输入音频中的声音特征。"
_CONTINUE_ZH = "模仿音频样本的音色并生成新的内容。"

_ENGLISH = {
    "omni": _Texts(_CLONE, "As an assistant, you will speak using this voice style."),
    "audio_assistant": _Texts(
        "Use the voice in the audio prompt to synthesize new content.",
        "You are a helpful assistant with the above voice style.",
    ),
    "audio_roleplay": _Texts(_CLONE, "Try to role-play the character based on the audio prompt above."),
    "voice_cloning": _Texts(_CLONE, None),
}
_CHINESE = {
    "omni": _Texts(
        _CONTINUE_ZH,
        "请用这种声音风格来为用户提供帮助。 请认真、高质量地回复用户的问题。 请用高自然度的方式和用户聊天。",
    ),
    "audio_assistant": _Texts(
        _CONTINUE_ZH,
        "你的任务是用这种声音模式来当一个助手。请认真、高质量地回复用户的问题。请用高自然度的方式和用户聊天。"
        "你是由面壁智能开发的人工智能助手：面壁小钢炮。",
    ),
    "audio_roleplay": _Texts(_CLONE_ZH, "假装你是上述音频中的人物，与我进行对话。"),
    "voice_cloning": _Texts(_CLONE_ZH, None),
}


def system_prompt(mode: str, language: str = "en", reference: AudioPart | None = None) -> Message:
    """The system message of *mode*, in Chinese for "zh" and in English for any other language.

    Args:
        mode: omni, audio_assistant, audio_roleplay, voice_cloning; any other means the default text, without recording.
        reference: recording of the voice to speak with.

    Raises:
        PromptError: voice_cloning without a recording.
    """
    texts = (_CHINESE if language == "zh" else _ENGLISH).get(mode)
    if texts is None:
        return Message("system", (TextPart(DEFAULT_TEXT),))
    after = () if texts.after is None else (TextPart(texts.after),)
    if reference is not None:
        return Message("system", (TextPart(texts.before), reference, *after))
    if mode == "voice_cloning":
        raise PromptError("voice_cloning needs a reference recording; give one, or choose another mode")
    if mode == "omni":
        return Message("system", (TextPart(""),))
    return Message("system", (TextPart(_NO_RECORDING), *after))
