// The page at `/`: one conversation with the server's own HTTP interface, streamed and played while it comes.

const RATE_HZ = 24000;
const at = (id) => document.getElementById(id);
const history = []; // messages as they are sent, newest last
let attached = []; // {name, kind, url}
let running = null; // AbortController of the answer on its way

const make = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};

const dataUrl = (blob) =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });

const headers = () => {
  const key = at("key").value;
  return { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
};

// --- speech ---

class Player {
  // Plays 16-bit samples one after another, and keeps them for a file at the end.
  constructor() {
    this.context = new AudioContext({ sampleRate: RATE_HZ });
    this.context.resume().catch(() => {});
    this.end = 0;
    this.pieces = [];
  }

  push(base64) {
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    if (!bytes.length) return;
    const samples = new Int16Array(bytes.buffer, 0, bytes.length >> 1);
    this.pieces.push(samples);
    const buffer = this.context.createBuffer(1, samples.length, RATE_HZ);
    buffer.getChannelData(0).set(Float32Array.from(samples, (value) => value / 32768));
    const source = this.context.createBufferSource();
    source.buffer = buffer;
    source.connect(this.context.destination);
    this.end = Math.max(this.end, this.context.currentTime + 0.05);
    source.start(this.end);
    this.end += buffer.duration;
  }

  stop() {
    this.context.close().catch(() => {});
  }

  file() {
    const length = this.pieces.reduce((sum, piece) => sum + piece.byteLength, 0);
    const head = new DataView(new ArrayBuffer(44));
    const word = (place, text) => [...text].forEach((letter, index) => head.setUint8(place + index, letter.charCodeAt(0)));
    word(0, "RIFF"); head.setUint32(4, 36 + length, true); word(8, "WAVEfmt ");
    head.setUint32(16, 16, true); head.setUint16(20, 1, true); head.setUint16(22, 1, true);
    head.setUint32(24, RATE_HZ, true); head.setUint32(28, RATE_HZ * 2, true);
    head.setUint16(32, 2, true); head.setUint16(34, 16, true); word(36, "data"); head.setUint32(40, length, true);
    return new Blob([head.buffer, ...this.pieces], { type: "audio/wav" });
  }
}

// --- attachments ---

const PARTS = { image: "image_url", audio: "audio_url", video: "video_url" };

async function attach(blob, name) {
  const kind = blob.type.split("/")[0];
  if (!(kind in PARTS)) return;
  attached.push({ name, kind, url: await dataUrl(blob) });
  showAttached();
}

function showAttached() {
  const box = at("attached");
  box.replaceChildren(
    ...attached.map((item) => {
      const chip = make("span", "chip");
      const remove = make("button", "", "×");
      remove.type = "button";
      remove.ariaLabel = `Remove ${item.name}`;
      remove.onclick = () => {
        attached = attached.filter((other) => other !== item);
        showAttached();
      };
      chip.append(make("span", "", item.name), remove);
      return chip;
    }),
  );
  box.hidden = !attached.length;
}

function showMedia(turn, items) {
  for (const { kind, url } of items) {
    const element = make(kind === "image" ? "img" : kind);
    element.src = url;
    if (kind === "image") element.alt = "attached picture";
    else element.controls = true;
    turn.append(element);
  }
}

// --- the conversation ---

function addTurn(role) {
  at("empty").hidden = true;
  const turn = make("div", `turn ${role}`);
  at("log").append(turn);
  turn.scrollIntoView({ block: "end" });
  return turn;
}

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    waiting += value;
    const pieces = waiting.split("\n\n");
    waiting = pieces.pop();
    for (const piece of pieces) {
      const body = piece.replace(/^data: /, "");
      if (body === "[DONE]") return;
      yield JSON.parse(body);
    }
  }
}

async function requestBody(speaks) {
  const system = at("system").value.trim();
  const voice = at("voice").files[0];
  return {
    messages: [...(system ? [{ role: "system", content: system }] : []), ...history],
    modalities: speaks ? ["text", "audio"] : ["text"],
    ...(speaks ? { audio: { format: "pcm" }, audio_stream_shape: "vllm-omni" } : {}),
    ...(speaks && voice ? { ref_audio: await dataUrl(voice) } : {}),
    max_tokens: Number(at("max").value) || 256,
    temperature: Number(at("temperature").value) || 0,
    stream: true,
    stream_options: { include_usage: true },
  };
}

async function answer() {
  const speaks = at("speech").checked;
  const turn = addTurn("assistant");
  const thought = make("p", "thought"), text = make("p"), facts = make("div", "facts");
  turn.append(thought, text, facts);
  const player = speaks ? new Player() : null;
  const start = performance.now();
  const since = () => `${Math.round(performance.now() - start)} ms`;
  let firstText = "", firstAudio = "", content = "";
  running = new AbortController();
  at("send").textContent = "Stop";
  try {
    const body = JSON.stringify(await requestBody(speaks));
    const response = await fetch("v1/chat/completions", { method: "POST", headers: headers(), body, signal: running.signal });
    if (!response.ok) {
      if (response.status === 401) at("key-field").closest("details").open = true;
      throw new Error((await response.json()).error.message);
    }
    for await (const chunk of events(response)) {
      if (chunk.error) throw new Error(chunk.error.message);
      const delta = chunk.choices[0]?.delta;
      if (delta?.content && chunk.modality === "audio") {
        firstAudio ||= since();
        player?.push(delta.content);
      } else if (delta?.content) {
        firstText ||= since();
        content += delta.content;
        text.textContent = content;
      } else if (delta?.reasoning_content) {
        thought.textContent += delta.reasoning_content;
      }
      if (chunk.usage) {
        const details = chunk.usage.completion_tokens_details;
        facts.dataset.usage = `${details.text_tokens} tokens` + (speaks ? `, ${(details.audio_tokens * 0.04).toFixed(1)} s of speech` : "");
      }
      turn.scrollIntoView({ block: "end" });
    }
  } catch (error) {
    const said = error.name === "AbortError" ? "Stopped." : error.message;
    turn.append(make("p", error.name === "AbortError" ? "facts" : "error", said));
    player?.stop();
  } finally {
    running = null;
    at("send").textContent = "Send";
  }
  const parts = [firstText && `text after ${firstText}`, firstAudio && `speech after ${firstAudio}`, facts.dataset.usage];
  facts.textContent = parts.filter(Boolean).join(" · ");
  if (player?.pieces.length) {
    const audio = make("audio");
    audio.controls = true;
    audio.src = URL.createObjectURL(player.file());
    turn.insertBefore(audio, facts);
  }
  if (content) history.push({ role: "assistant", content });
  else history.pop();
  turn.scrollIntoView({ block: "end" });
}

at("composer").onsubmit = (event) => {
  event.preventDefault();
  if (running) {
    running.abort();
    return;
  }
  const text = at("text").value.trim();
  if (!text && !attached.length) return;
  const turn = addTurn("user");
  showMedia(turn, attached);
  if (text) turn.append(make("p", "", text));
  const media = attached.map(({ kind, url }) => ({ type: PARTS[kind], [PARTS[kind]]: { url } }));
  history.push({ role: "user", content: media.length ? [...media, ...(text ? [{ type: "text", text }] : [])] : text });
  attached = [];
  showAttached();
  at("text").value = "";
  answer();
};

at("text").onkeydown = (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    at("composer").requestSubmit();
  }
};

at("file").onchange = async (event) => {
  for (const file of event.target.files) await attach(file, file.name);
  event.target.value = "";
};

let recorder = null;
at("record").onclick = async () => {
  if (recorder) {
    recorder.stop();
    return;
  }
  try {
    const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
    const pieces = [];
    recorder = new MediaRecorder(stream);
    recorder.ondataavailable = (event) => pieces.push(event.data);
    recorder.onstop = async () => {
      stream.getTracks().forEach((track) => track.stop());
      await attach(new Blob(pieces, { type: recorder.mimeType }), "recording");
      recorder = null;
      at("record").classList.remove("on");
      at("record").textContent = "Record";
    };
    recorder.start();
    at("record").classList.add("on");
    at("record").textContent = "Stop recording";
  } catch (error) {
    addTurn("assistant").append(make("p", "error", `The microphone cannot be used: ${error.message}`));
  }
};

async function introduce() {
  const response = await fetch("version", { headers: headers() });
  if (!response.ok) return;
  const facts = await response.json();
  at("model").textContent = `${facts.model} · Antiphon ${facts.version}`;
  at("tiny").hidden = !facts.is_tiny;
}

at("key").onchange = introduce;
introduce();
