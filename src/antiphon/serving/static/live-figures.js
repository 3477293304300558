// How fast it is, measured here: every time is from the moment the last sample of a second was handed to the socket.

const UNIT_SAMPLES = 16000;
const KEPT = 50;
const MOST_WAITING = 3; // seconds without a decision; more means that one was never told

const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];
const ms = (value) => `${Math.round(value)} ms`;

export class Figures {
  constructor(at) {
    this.at = at; // id → element
    this.reset();
  }

  reset() {
    this.sent = 0; // samples, since the last gap
    this.ends = []; // of seconds that wait for a decision
    this.spokenUnit = null; // the end of the second that was answered, until its first audio
    this.decisions = [];
    this.firsts = [];
    this.gaps = 0;
    for (const id of ["decision", "first", "trip", "buffer"]) this.at(id).textContent = "–";
    this.at("gaps").textContent = "0";
    this.heard(0, 0);
  }

  // --- the seconds that go out

  closesUnit(samples) {
    return Math.floor((this.sent + samples) / UNIT_SAMPLES) > Math.floor(this.sent / UNIT_SAMPLES);
  }

  sentSamples(samples) {
    if (this.closesUnit(samples)) this.ends.push(performance.now());
    if (this.ends.length > MOST_WAITING) this.ends.shift();
    this.sent += samples;
  }

  lineCut() {
    this.sent = 0;
    this.forget();
  }

  forget() {
    // While the model speaks its seconds go without a decision of their own.
    this.ends = [];
    this.spokenUnit = null;
  }

  // --- what comes back

  decided(isSpeak) {
    const end = this.ends.shift();
    if (end === undefined) return;
    this.note("decision", this.decisions, performance.now() - end);
    if (isSpeak) this.spokenUnit = end;
  }

  audioCame() {
    if (this.spokenUnit !== null) this.note("first", this.firsts, performance.now() - this.spokenUnit);
    this.forget();
  }

  roundTrip(value) {
    this.at("trip").textContent = value < 10 ? `${value.toFixed(1)} ms` : ms(value);
  }

  buffered(samples) {
    this.at("buffer").textContent = ms(samples / 24);
  }

  ranDry() {
    this.at("gaps").textContent = String(++this.gaps);
  }

  heard(samples, sounding) {
    this.at("heard").textContent = `${(samples / 24000).toFixed(1)} s`;
    this.at("heard").dataset.sounding = sounding;
  }

  note(id, values, value) {
    values.push(value);
    if (values.length > KEPT) values.shift();
    this.at(id).textContent = ms(value);
    this.at(id).title = `median of the last ${values.length}: ${ms(median(values))}`;
  }
}
