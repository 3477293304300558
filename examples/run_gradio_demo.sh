#!/usr/bin/env bash
# Opens the Gradio page for a running server; further arguments go to gradio_demo.py.
#
#   examples/run_gradio_demo.sh [--share …]
#
# Environment: MINICPMO45_API_BASE (http://127.0.0.1:8099/v1), MINICPMO45_MODEL, GRADIO_HOST (0.0.0.0),
# GRADIO_PORT (7862), GRADIO_SSL_CERTFILE, GRADIO_SSL_KEYFILE, GRADIO_SSL_VERIFY, PYTHON (python3).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-python3}
"$python" -c 'import gradio, openai' 2>/dev/null || {
  echo "The demo needs gradio and openai: pip install 'antiphon[demo]' (PYTHON=$python)" >&2
  exit 1
}
exec "$python" "$here/gradio_demo.py" --host "${GRADIO_HOST:-0.0.0.0}" --port "${GRADIO_PORT:-7862}" "$@"
