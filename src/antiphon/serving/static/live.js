// The page at `/live`: ties session, sound, camera, transcript and figures together.

import { Microphone } from "./live-audio.js";
import { Camera } from "./live-camera.js";
import { Figures } from "./live-figures.js";
import { Loudness } from "./live-loudness.js";
import { explain, Panel } from "./live-panel.js";
import { Replies } from "./live-replies.js";
import { errorOf, LiveSession } from "./live-session.js";
import { Transcript } from "./live-transcript.js";

const BLOCK_SAMPLES = 3200;
const MAX_VOICE_BYTES = 7 * 2 ** 20; // its base64 must stay below the server's 10 MiB
const HARMLESS = new Set(["playback_ack_too_late", "playback_item_not_found", "response_not_active"]);

const at = (id) => document.getElementById(id);
const panel = new Panel(at);
const figures = new Figures(at);
const transcript = new Transcript(at("log"));
const camera = new Camera(at("view"));
let session = null, microphone = null, replies = null;
let isMuted = false, hasCamera = false;
let isServerHearing = false; // it tells when the user speaks; else loudness does
const loudness = new Loudness((isSpeech) => markSpeech(isSpeech, false));

function showLive() {
  if (session?.isLive) panel.show(replies.isSpeaking ? "speaking" : isMuted ? "muted" : "listening");
  at("interrupt").disabled = !replies?.isSpeaking; // also while the line is cut: what has come is still heard
}

function showState(name, detail) {
  if (name !== "live") panel.show(name, detail);
  showLive();
}

function markSpeech(isSpeech, isServer, at_ms) {
  if (isServer !== isServerHearing) return;
  if (isSpeech) transcript.speechBegan(at_ms);
  else transcript.speechEnded(at_ms);
}

function announce(reply) {
  if (reply.text) at("said").textContent = reply.isCut ? `${reply.spoken.textContent} (interrupted)` : reply.text;
}

// --- what the server says

const on = {
  "session.created": (event) => {
    at("model").textContent = event.session.model ?? "";
    panel.startClock();
    at("mute").disabled = false;
  },
  "session.resumed": () => {
    figures.lineCut();
    replies.resumed();
    transcript.note("The connection was cut and has been resumed.");
  },
  "session.warning": ({ message }) => transcript.note(message),
  "input_audio_buffer.speech_started": (event) => markSpeech(true, true, event.audio_start_ms),
  "input_audio_buffer.speech_stopped": (event) => markSpeech(false, true, event.audio_end_ms),
  "response.created": ({ response }) => replies.begin(response.id),
  "response.speak": () => figures.decided(true),
  "response.listen": (event) => event.response_id || figures.decided(false),
  "response.output_audio.delta": (event) => replies.sound(event),
  "response.output_audio_transcript.delta": (event) => replies.text(event),
  "response.output_text.delta": (event) => replies.text(event),
  "response.done": ({ response }) => replies.done(response),
  "output_audio_buffer.cleared": ({ response_id }) => replies.cut(response_id),
  error: (event) => {
    const error = errorOf(event);
    if (error.code === "server_vad_unavailable") withoutDetector();
    else if (session.isLive && !HARMLESS.has(error.code)) panel.complain(explain(error));
  },
};

function withoutDetector() {
  isServerHearing = false;
  // The piece of sound that met the missing detector is lost, so the seconds start over.
  session.send({ type: "input_audio_buffer.clear" });
  figures.lineCut();
  session.send({ type: "session.update", session: { turn_detection: null } });
  transcript.note("This server does not notice when you speak over an answer. The model may; Interrupt always does.");
}

// --- start and stop

const dataUrl = (file) =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(new Error("The recording of the voice cannot be read."));
    reader.readAsDataURL(file);
  });

async function sessionSettings() {
  const instructions = at("instructions").value.trim();
  const voice = at("voice").files[0];
  if (voice?.size > MAX_VOICE_BYTES) throw new Error("The recording of the voice is too large; 7 MB is the most.");
  return {
    modalities: ["text", "audio"],
    input_audio_format: "pcm16",
    sample_rate_hz: 16000,
    output_audio_format: "pcm16",
    playback_commit_policy: "ack_only",
    extra_body: { auto_response: true, force_listen_count: 0 },
    ...(at("overlap").checked ? { turn_detection: { type: "server_vad" } } : {}),
    ...(instructions ? { instructions } : {}),
    ...(voice ? { ref_audio: await dataUrl(voice) } : {}),
  };
}

async function start() {
  panel.complain("");
  panel.show("connecting");
  at("empty").hidden = true;
  transcript.clear();
  figures.reset();
  const mine = new Microphone({ block: send, level: levelled, lost: () => stop("The microphone is gone.") });
  microphone = mine;
  replies = new Replies(transcript, figures, (event) => session?.send(event), { changed: showLive, ended: announce });
  try {
    await Promise.all([mine.open(), replies.speaker.open()]);
    const settings = await sessionSettings();
    if (microphone === mine) open(settings);
    else mine.close(); // stopped meanwhile
  } catch (error) {
    if (microphone === mine) stop(error.message);
  }
}

function open(settings) {
  isServerHearing = "turn_detection" in settings;
  const address = new URL("v1/realtime?duplex=1&autostart=0", location.href);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  session = new LiveSession(address.href, at("key").value, settings, {
    event: (event) => on[event.type]?.(event),
    state: showState,
    roundTrip: (value) => figures.roundTrip(value),
    end: ended,
  });
  session.start();
}

function send(block) {
  const frames = hasCamera && figures.closesUnit(BLOCK_SAMPLES) ? camera.take() : [];
  if (session?.append(block, frames)) figures.sentSamples(BLOCK_SAMPLES);
}

function levelled(rms) {
  panel.showLevel(rms);
  loudness.push(rms);
}

async function ended(reason) {
  stop(reason && reason.code !== "unreachable" ? explain(reason) : "");
  if (reason?.code === "unreachable") panel.complain(await whyUnreachable());
}

async function whyUnreachable() {
  // A browser does not tell a page why a socket was refused, so the same door is tried over HTTP.
  const key = at("key").value;
  const response = await fetch("v1/models", { headers: key ? { Authorization: `Bearer ${key}` } : {} }).catch(() => null);
  if (!response) return "The server does not answer.";
  if (response.ok) return "This server does not offer live sessions, or is too busy.";
  if (response.status !== 401) return `The server does not answer (${response.status}).`;
  panel.askForKey();
  return key ? "The server does not know this API key." : "The server asks for an API key. Give it below and press Start again.";
}

function stop(complaint = "") {
  const ending = session;
  session = null;
  ending?.close();
  replies?.close();
  microphone?.close();
  [replies, microphone] = [null, null];
  if (hasCamera) toggleCamera();
  transcript.speechEnded();
  panel.showLevel(0);
  setMuted(false);
  at("mute").disabled = true;
  panel.show("stopped");
  showLive();
  if (complaint) panel.complain(complaint);
}

function setMuted(value) {
  isMuted = value;
  if (microphone) microphone.isMuted = value;
  at("mute").ariaPressed = String(value);
  at("mute").textContent = value ? "Unmute" : "Mute";
  showLive();
}

async function toggleCamera() {
  try {
    if (hasCamera) camera.close();
    else await camera.open(at("facing").value);
    hasCamera = !hasCamera;
  } catch (error) {
    panel.complain(error.message);
  }
  at("view").hidden = !hasCamera;
  at("camera").ariaPressed = String(hasCamera);
}

at("panel").onsubmit = (event) => event.preventDefault();
at("start").onclick = () => (panel.name === "stopped" ? start() : stop());
at("interrupt").onclick = () => replies?.interrupt();
at("mute").onclick = () => setMuted(!isMuted);
at("camera").onclick = toggleCamera;
onkeydown = (event) => {
  if (event.target.closest("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") replies?.interrupt();
  else if (event.key.toLowerCase() === "m" && !at("mute").disabled) setMuted(!isMuted);
};
onpagehide = () => session?.close(); // else its place stays taken until the server notices
setInterval(() => session?.isLive && panel.showClock(), 500);

const host = await (await fetch("live.json")).json();
at("tiny").hidden = !host.is_tiny;
at("scripted").hidden = !host.is_scripted;
at("links").hidden = !host.has_chat;
