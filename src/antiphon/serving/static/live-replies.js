// The answers of one session from their first event to the last sample that is heard, and what of it the server is told.

import { Speaker } from "./live-audio.js";

const ACK_SAMPLES = 4800; // played since the last acknowledgement: 200 ms
const SAMPLES_PER_MS = 24;

export class Replies {
  // *send* takes an event for the server, and says whether there is a line; *on*: changed(), ended(reply).
  constructor(transcript, figures, send, on) {
    this.transcript = transcript;
    this.figures = figures;
    this.send = send;
    this.on = on;
    this.open = new Map(); // by id: those that run or are still heard
    this.heard = 0; // samples of those before
    this.untold = new Map(); // acknowledgements by id that may not have reached the server
    this.uncut = new Set(); // what was taken back without a line
    this.speaker = new Speaker({
      progress: (told) => this.progressed(told),
      ended: (told) => this.ended(told),
      underrun: () => figures.ranDry(),
    });
  }

  get isSpeaking() {
    return [...this.open.values()].some((reply) => !reply.isOver);
  }

  // --- what the server sends

  begin(id) {
    if (!this.open.has(id)) this.open.set(id, this.transcript.reply(id));
    this.on.changed();
    return this.open.get(id);
  }

  sound({ response_id, delta }) {
    const reply = this.begin(response_id);
    if (reply.isStopped) return; // on its way when it was interrupted
    this.figures.audioCame();
    reply.samples += this.speaker.push(reply.id, delta);
  }

  text({ response_id, delta }) {
    const reply = this.begin(response_id);
    reply.add(delta);
    reply.show();
    this.transcript.follow();
  }

  done({ id, status }) {
    const reply = this.open.get(id);
    this.figures.forget();
    if (!reply) return;
    reply.status = status;
    if (reply.isOver) this.open.delete(id);
    else if (status === "failed" || status === "cancelled") this.cut(id);
    else if (reply.samples) this.speaker.end(id);
    else this.over(reply);
  }

  cut(id) {
    // The server took the rest back.
    const reply = this.open.get(id);
    if (!reply || reply.isOver) return;
    reply.isStopped = true;
    if (reply.samples) this.speaker.cut(id);
    else this.over(reply);
  }

  // --- what the speaker tells

  progressed({ id, played, queued, sounding }) {
    const reply = this.open.get(id);
    this.figures.buffered(queued);
    if (!reply) return;
    reply.played = played;
    this.figures.heard(this.heard + played, sounding);
    if (played - reply.acknowledged >= ACK_SAMPLES) this.acknowledge(reply);
    reply.show();
  }

  ended({ id, played, sounding }) {
    const reply = this.open.get(id);
    this.heard += played;
    this.figures.heard(this.heard, sounding);
    this.figures.buffered(0);
    if (!reply) return;
    reply.played = played;
    this.acknowledge(reply);
    this.over(reply);
  }

  acknowledge(reply) {
    if (reply.acknowledged === reply.played) return;
    reply.acknowledged = reply.played;
    const played_ms = reply.played / SAMPLES_PER_MS;
    const told = { type: "playback.ack", response_id: reply.id, item_id: `item_${reply.id}`, played_ms };
    // Into a line that is just dying it would be lost too, so the last one is kept in any case.
    if (this.send(told)) this.untold.clear();
    this.untold.set(reply.id, told);
  }

  resumed() {
    for (const told of this.untold.values()) this.send(told);
    for (const id of this.uncut) this.clear(id);
  }

  over(reply) {
    if (reply.isOver) return;
    reply.isOver = true;
    reply.show();
    this.transcript.follow();
    if (!reply.text && !reply.samples) reply.element.remove();
    if (reply.status) this.open.delete(reply.id);
    this.on.ended(reply);
    this.on.changed();
  }

  // --- what the user wants

  interrupt() {
    for (const reply of this.open.values()) if (!reply.isOver) this.takeBack(reply);
  }

  async takeBack(reply) {
    // What was heard is told before the rest is taken back, so that the server's history ends where the sound did.
    reply.isStopped = true;
    if (reply.samples) await this.speaker.cut(reply.id);
    this.clear(reply.id);
  }

  clear(id) {
    if (this.send({ type: "output_audio_buffer.clear", response_id: id })) this.uncut.delete(id);
    else this.uncut.add(id);
  }

  close() {
    for (const reply of this.open.values()) {
      reply.isStopped = true;
      this.over(reply);
    }
    this.open.clear();
    this.speaker.close();
  }
}
