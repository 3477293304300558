// Plays responses one after another at 24 kHz, and counts for each exactly how many of its samples were played.
//
// In: {type: "audio", id, samples}, {type: "end", id}: no more of it comes, {type: "cut", id}: stop it.
// Out: "progress" while it plays, "ended" once for each response, "underrun" when it ran dry.

const START_SAMPLES = 0.2 * sampleRate; // that must wait before playing starts
const STEP_SAMPLES = 0.1 * sampleRate; // more after each underrun
const MOST_SAMPLES = 0.6 * sampleRate;
const FADE_SAMPLES = 0.005 * sampleRate;
const REPORT_BLOCKS = 10; // about 50 ms

class Playback extends AudioWorkletProcessor {
  constructor() {
    super();
    this.queue = []; // {id, samples, place}, and {id, isCut} where a response ends
    this.queued = 0;
    this.played = new Map();
    this.sounding = 0; // samples that were not zero, of all responses
    this.target = START_SAMPLES;
    this.isPlaying = false;
    this.gain = 0;
    this.last = 0; // what was put out last, to fade from when nothing is left
    this.blocks = 0;
    this.port.onmessage = ({ data }) => this[data.type](data);
  }

  audio({ id, samples }) {
    if (!this.played.has(id)) this.played.set(id, 0);
    if (!samples.length) return;
    this.queue.push({ id, samples, place: 0 });
    this.queued += samples.length;
  }

  end({ id }) {
    if (!this.played.has(id)) this.played.set(id, 0);
    this.queue.push({ id, isCut: false });
  }

  cut({ id }) {
    if (!this.played.has(id)) return;
    const own = this.queue.filter((entry) => entry.id === id && entry.samples);
    const rest = this.queue.filter((entry) => entry.id !== id);
    const isHeard = this.isPlaying && this.queue[0]?.id === id && own.length > 0;
    const fade = isHeard ? this.faded(own[0]) : [];
    this.queue = [...fade, { id, isCut: true }, ...rest];
    this.queued = this.queue.reduce((sum, entry) => sum + (entry.samples ? entry.samples.length - entry.place : 0), 0);
    if (!isHeard) this.endAtFront(); // nothing of it sounds, so it ends now
  }

  faded({ id, samples, place }) {
    const tail = samples.slice(place, place + FADE_SAMPLES); // at least one sample: played out pieces leave the queue
    return [{ id, samples: tail.map((value, index) => value * (1 - index / tail.length)), place: 0 }];
  }

  endAtFront() {
    while (this.queue.length && !this.queue[0].samples) {
      const { id, isCut } = this.queue.shift();
      this.port.postMessage({ type: "ended", id, isCut, played: this.played.get(id) ?? 0, sounding: this.sounding });
      this.played.delete(id);
    }
  }

  isReady() {
    const head = this.queue[0];
    return head && (this.queued >= this.target || this.queue.some((entry) => entry.id === head.id && !entry.samples));
  }

  process(_inputs, [[output]]) {
    if (!this.isPlaying && this.isReady()) {
      this.isPlaying = true;
      this.gain = 0;
    }
    for (let index = 0; index < output.length; index++) output[index] = this.isPlaying ? this.next() : this.fall();
    if (this.isPlaying && ++this.blocks % REPORT_BLOCKS === 0) this.report();
    return true;
  }

  next() {
    this.endAtFront();
    const head = this.queue[0];
    if (!head) return this.runDry();
    const value = head.samples[head.place++];
    this.queued--;
    this.played.set(head.id, this.played.get(head.id) + 1);
    if (value) this.sounding++;
    if (head.place === head.samples.length) this.queue.shift();
    this.gain = Math.min(1, this.gain + 1 / FADE_SAMPLES);
    this.last = value * this.gain;
    return this.last;
  }

  runDry() {
    this.isPlaying = false;
    if (this.played.size) {
      // A response is open and its next piece is late: wait for more than last time.
      this.target = Math.min(MOST_SAMPLES, this.target + STEP_SAMPLES);
      this.port.postMessage({ type: "underrun" });
    }
    return this.fall();
  }

  fall() {
    this.last = Math.abs(this.last) < 1e-4 ? 0 : this.last * (1 - 4 / FADE_SAMPLES);
    return this.last;
  }

  report() {
    const id = this.queue[0]?.id;
    if (id === undefined) return;
    const [played, queued] = [this.played.get(id), this.queued];
    this.port.postMessage({ type: "progress", id, played, queued, sounding: this.sounding });
  }
}

registerProcessor("antiphon-playback", Playback);
