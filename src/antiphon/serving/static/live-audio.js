// Microphone and loudspeaker, on audio worklets.

import { loadWorklet, openDevice, toBase64 } from "./live-device.js";

const SPEECH_HZ = 24000;
const CUT_PATIENCE_MS = 150;

export class Microphone {
  // *on*: block(base64 of 200 ms), level(rms), lost(). Sound is 16 kHz, 16 bit, mono.
  constructor(on) {
    this.on = on;
  }

  async open() {
    this.context = new AudioContext({ latencyHint: "interactive" });
    const audio = { channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true };
    this.stream = await openDevice({ audio }, "microphone");
    await loadWorklet(this.context, "capture-worklet.js");
    this.node = new AudioWorkletNode(this.context, "antiphon-capture", { numberOfOutputs: 0 });
    this.node.port.onmessage = ({ data }) => {
      if (data.type === "level") this.on.level(data.rms);
      else this.on.block(toBase64(data.samples.buffer));
    };
    this.stream.getAudioTracks()[0].onended = this.on.lost;
    this.context.createMediaStreamSource(this.stream).connect(this.node);
    await this.context.resume();
  }

  set isMuted(value) {
    // The stream goes on with silence: the model's seconds must not stop.
    for (const track of this.stream.getAudioTracks()) track.enabled = !value;
  }

  close() {
    this.stream?.getTracks().forEach((track) => track.stop());
    this.context?.close();
  }
}

export class Speaker {
  // *on*: progress({id, played, queued, sounding}), ended({id, played, isCut, sounding}), underrun().
  constructor(on) {
    this.on = on;
    this.cuts = new Map(); // id → what waits for its end
  }

  async open() {
    this.context = new AudioContext({ sampleRate: SPEECH_HZ, latencyHint: "interactive" });
    await loadWorklet(this.context, "playback-worklet.js");
    this.node = new AudioWorkletNode(this.context, "antiphon-playback", { numberOfInputs: 0, outputChannelCount: [1] });
    this.node.port.onmessage = ({ data }) => {
      this.on[data.type](data);
      if (data.type === "ended") this.cuts.get(data.id)?.();
    };
    this.node.connect(this.context.destination);
    await this.context.resume();
  }

  push(id, base64) {
    // Gives the number of samples.
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const words = new DataView(bytes.buffer);
    const samples = Float32Array.from({ length: bytes.length >> 1 }, (_, at) => words.getInt16(2 * at, true) / 32768);
    const count = samples.length;
    this.node.port.postMessage({ type: "audio", id, samples }, [samples.buffer]);
    return count;
  }

  end(id) {
    this.node.port.postMessage({ type: "end", id });
  }

  async cut(id) {
    // Resolves when it is known how much was played.
    const isOver = new Promise((done) => this.cuts.set(id, done));
    this.node.port.postMessage({ type: "cut", id });
    await Promise.race([isOver, new Promise((done) => setTimeout(done, CUT_PATIENCE_MS))]);
    this.cuts.delete(id);
  }

  close() {
    this.context?.close();
  }
}
