// The wire: one live session with the server, kept across cut sockets. It touches neither the page nor audio.

const PATIENCE_MS = 190_000; // for the first answer: a server that warms up holds its sockets for 180 s
const RESUME_PATIENCE_MS = 15_000;
const CLOSE_PATIENCE_MS = 1000;
const HEARTBEAT_MS = 5000; // doubles as the measure of the round trip
const ACK_MS = 200; // events are acknowledged together
const MAX_ATTEMPTS = 5;
const QUEUE_RETRY_MS = 3000;
const MAX_QUEUE_MS = 300_000;
const MAX_WAITING_BYTES = 1 << 20; // in the socket; more than 20 s of sound is no conversation any more
const FINAL = new Set([
  "invalid_session_resume", "session_resume_expired", "unsupported_session_resume", "invalid_resume_token",
  "session_resume_conflict",
]);

const DEAF = { event() {}, state() {}, roundTrip() {}, end() {} };

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

export const errorOf = (event) => {
  // Refusals of a route are flat, all others are an object.
  const inner = event.error && typeof event.error === "object" ? event.error : { code: event.code, message: event.error };
  return { code: inner.code ?? "", message: inner.message ?? "the server gave no reason" };
};

export class LiveSession {
  // *settings* opens the session. *on*: event(event), state(name, detail), roundTrip(ms), end(reason or null).
  constructor(url, key, settings, on) {
    this.url = url;
    this.protocols = key ? ["realtime", `openai-insecure-api-key.${key}`] : undefined;
    this.settings = settings;
    this.on = on;
    this.id = null;
    this.token = null;
    this.lastSeq = 0;
    this.ackedSeq = 0;
    this.isLive = false; // events may be sent
    this.isOver = false;
    this.queuedSince = 0;
    this.beatAt = 0;
    this.dropped = 0; // appends that a slow line cost
  }

  start() {
    this.on.state("connecting");
    this.connect({ type: "session.update", session: this.settings }, PATIENCE_MS);
  }

  connect(first, patience) {
    if (this.isOver) return;
    let socket;
    try {
      socket = new WebSocket(this.url, this.protocols);
    } catch (error) {
      this.finish({ code: "bad_key", message: `this address or key cannot be used: ${error.message}` });
      return;
    }
    this.socket = socket;
    this.refusal = null; // the last error before the session was there
    this.hasOpened = false;
    socket.onopen = () => {
      this.hasOpened = true;
      socket.send(JSON.stringify(first));
    };
    socket.onmessage = ({ data }) => this.socket === socket && this.receive(JSON.parse(data));
    socket.onclose = ({ code, reason }) => this.socket === socket && this.lost(code, reason);
    this.timer = setTimeout(() => this.isLive || socket.close(), patience);
  }

  receive(event) {
    const seq = event.server_event_seq;
    if (typeof seq === "number") {
      if (seq <= this.lastSeq) return; // sent again after a resume
      this.lastSeq = seq;
    }
    if (event.type === "session.created" || event.type === "session.resumed") this.attached(event);
    else if (event.type === "session.heartbeat_ack") this.on.roundTrip(performance.now() - this.beatAt);
    else if (event.type === "session.resync_required") this.token = null;
    else if (event.type === "session.replaced") this.finish({ code: "replaced", message: "the session was continued elsewhere" });
    else if (event.type === "session.closed" || event.type === "session.expired") this.ended(event);
    else if (event.type === "error" && !this.isLive) this.refusal = errorOf(event);
    else if (/^(session\.)?queue/.test(event.type)) this.queued(event);
    this.on.event(event);
  }

  attached(event) {
    clearTimeout(this.timer);
    this.id = event.session.id ?? event.session_id;
    this.token = event.resume_token ?? null;
    this.isLive = true;
    this.attempt = 0;
    this.timers = [setInterval(() => this.beat(), HEARTBEAT_MS), setInterval(() => this.acknowledgeEvents(), ACK_MS)];
    // What was on its way is lost: the half second that the server has would put all later seconds out of step.
    if (event.type === "session.resumed") this.send({ type: "input_audio_buffer.clear" });
    this.beat();
    this.on.state("live");
  }

  queued(event) {
    if (event.type.endsWith("queue_done")) this.on.state("connecting");
    else this.on.state("queued", { position: event.position, length: event.queue_length, wait_s: event.estimated_wait_s });
  }

  beat() {
    this.beatAt = performance.now();
    this.send({ type: "session.heartbeat" });
  }

  acknowledgeEvents() {
    if (this.lastSeq === this.ackedSeq) return;
    this.ackedSeq = this.lastSeq;
    this.send({ type: "session.event_ack", server_event_seq: this.lastSeq });
  }

  send(event) {
    if (!this.isLive || this.socket.readyState !== WebSocket.OPEN) return false;
    this.socket.send(JSON.stringify(event));
    return true;
  }

  append(audio, frames) {
    // false: this piece of sound is lost, because there is no line or it is too slow.
    if (this.isLive && this.socket.bufferedAmount > MAX_WAITING_BYTES) {
      this.dropped++;
      return false;
    }
    const pictures = frames.length ? { video_frames: frames } : {};
    return this.send({ type: "input_audio_buffer.append", audio, format: "pcm16", sample_rate_hz: 16000, ...pictures });
  }

  // --- the line is cut

  lost(code, reason) {
    const wasLive = this.isLive;
    this.detach();
    if (this.isOver) return;
    const refusal = this.refusal;
    if (!this.id) this.refused(refusal, code, reason);
    else if (!this.token || FINAL.has(refusal?.code))
      this.finish(refusal ?? { code: "lost", message: "the connection was lost and the session cannot be resumed" });
    else this.resume(wasLive ? 1 : this.attempt + 1);
  }

  refused(refusal, code, reason) {
    if (refusal?.code === "resource_exhausted" && performance.now() - (this.queuedSince ||= performance.now()) < MAX_QUEUE_MS) {
      this.on.state("queued", {});
      pause(QUEUE_RETRY_MS).then(() => this.connect({ type: "session.update", session: this.settings }, PATIENCE_MS));
    } else if (refusal) this.finish(refusal);
    else if (this.hasOpened) this.finish({ code: "lost", message: reason || `the server closed the connection (${code})` });
    else this.finish({ code: "unreachable", message: "the server did not take the connection" });
  }

  async resume(attempt) {
    if (attempt > MAX_ATTEMPTS) {
      this.finish({ code: "lost", message: "the connection was lost, and every attempt to resume failed" });
      return;
    }
    this.attempt = attempt;
    this.on.state("reconnecting", { attempt, of: MAX_ATTEMPTS });
    const most_s = Math.min(4, 0.25 * 2 ** attempt);
    await pause(1000 * (0.25 + Math.random() * (most_s - 0.25)));
    const request = { session_id: this.id, resume_token: this.token, last_received_server_event_seq: this.lastSeq };
    this.connect({ type: "session.resume", ...request }, RESUME_PATIENCE_MS);
  }

  // --- the end

  close() {
    // Whoever closes wants to hear no more.
    this.on = DEAF;
    this.send({ type: "session.close" });
    if (this.isLive) this.timer = setTimeout(() => this.finish(null), CLOSE_PATIENCE_MS);
    else this.finish(null);
  }

  ended(event) {
    const said = { disconnect_grace_expired: "nobody was there for too long", idle_ttl_expired: "nothing happened for too long" };
    const reason = said[event.reason] ?? event.reason;
    this.finish(event.reason === "client_close" ? null : { code: "ended", message: `the server ended the session: ${reason}` });
  }

  detach() {
    clearTimeout(this.timer);
    this.timers?.forEach(clearInterval);
    this.isLive = false;
  }

  finish(reason) {
    if (this.isOver) return;
    this.isOver = true;
    this.detach();
    this.socket?.close();
    this.on.end(reason);
  }
}
