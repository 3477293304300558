#!/usr/bin/env bash
# Asks a running server one question with curl and prints the text of the answer and how many choices carry audio.
#
#   examples/run_curl_multimodal_generation.sh text|use_audio|use_image|use_video [MODALITIES]
#
# MODALITIES is a JSON list, '["text"]' or '["text","audio"]', or null (the server's default: both).
# Environment: HOST (127.0.0.1), PORT (8099), MODEL (the server's first), API_KEY, OUTPUT (a WAV to write the speech to),
# PYTHON (python3; only to make the sample media). Needs curl, jq and base64.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
query=${1:-}
modalities=${2:-null}
base="http://${HOST:-127.0.0.1}:${PORT:-8099}"
python=${PYTHON:-python3}

usage() {
  sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}

case $query in
  text) kind=text prompt="Explain in two sentences why the sky is blue." ;;
  use_audio) kind=audio file=tune.wav type=audio/wav prompt="What do you hear?" ;;
  use_image) kind=image file=harbour.png type=image/png prompt="What is in this picture?" ;;
  use_video) kind=video file=ball.mp4 type=video/mp4 prompt="What happens in this clip?" ;;
  *) usage ;;
esac
jq -e 'type == "array" or . == null' <<<"$modalities" >/dev/null 2>&1 || {
  echo "MODALITIES is '$modalities'; give a JSON list such as '[\"text\"]', or null" >&2
  exit 2
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Media travel inside the request, as data: addresses; jq reads them from files, so their size does not matter.
: >"$work/url"
if [ "$kind" != text ]; then
  [ -s "$here/media/$file" ] || "$python" "$here/sample_media.py" "$here/media" >/dev/null
  printf 'data:%s;base64,%s' "$type" "$(base64 <"$here/media/$file" | tr -d '\n')" >"$work/url"
fi

# Thinker and talker get their whole set of sampling parameters; code2wav keeps the server's.
jq -n \
  --arg model "${MODEL:-}" --arg kind "$kind" --arg prompt "$prompt" --rawfile url "$work/url" \
  --argjson modalities "$modalities" '
  ($kind + "_url") as $part
  | {
      messages: [
        {role: "system", content: "You are an assistant that sees pictures and clips, hears sounds, and answers in text and speech."},
        {role: "user", content: ((if $kind == "text" then [] else [{type: $part, ($part): {url: $url}}] end) + [{type: "text", text: $prompt}])}
      ],
      sampling_params_list: [
        {temperature: 0.0, top_p: 1.0, top_k: -1, max_tokens: 256, seed: 42, repetition_penalty: 1.05},
        {temperature: 0.8, top_p: 0.85, top_k: 25, max_tokens: 1024, min_tokens: 50, seed: 42, repetition_penalty: 1.05}
      ],
      modalities: $modalities,
      chat_template_kwargs: {enable_thinking: false, use_tts_template: ($modalities != ["text"])}
    }
  | if $model == "" then . else . + {model: $model} end' >"$work/request.json"

header=()
[ -z "${API_KEY:-}" ] || header=(-H "Authorization: Bearer $API_KEY")
status=$(curl -sS -o "$work/answer.json" -w '%{http_code}' "$base/v1/chat/completions" \
  -H "Content-Type: application/json" ${header[@]+"${header[@]}"} --data-binary @"$work/request.json")
if [ "$status" != 200 ]; then
  echo "HTTP $status: $(jq -r '.error.message? // .error? // .' "$work/answer.json" 2>/dev/null || cat "$work/answer.json")" >&2
  exit 1
fi

jq -r '"Text: " + ([.choices[].message.content | select(. != null and . != "")][0] // "(none)"),
  "Choices with audio: " + ([.choices[] | select(.message.audio.data != null)] | length | tostring)' "$work/answer.json"
if [ -n "${OUTPUT:-}" ]; then
  jq -r '[.choices[].message.audio.data | select(. != null)][0] // empty' "$work/answer.json" | base64 -d >"$OUTPUT"
  echo "Speech written to $OUTPUT"
fi
