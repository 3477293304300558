// A streaming resampler. It knows nothing about audio worklets, so that a test can run it by itself.

const ZERO_CROSSINGS = 16; // of the sinc, to each side
const ROLL_OFF = 0.92; // of the narrower band: what is above is damped

const divisor = (a, b) => (b ? divisor(b, a % b) : a);

export class Resampler {
  // Blocks of any length in, whatever is due out; a tone keeps its phase across blocks.
  constructor(fromHz, toHz) {
    const common = divisor(fromHz, toHz);
    this.up = toHz / common;
    this.down = fromHz / common;
    this.half = Math.ceil((ZERO_CROSSINGS * Math.max(fromHz, toHz)) / toHz);
    this.filters = Array.from({ length: this.up }, (_, phase) => this.filter(phase, Math.min(1, toHz / fromHz)));
    this.input = new Float32Array(this.half - 1); // silence before the first sample
    this.position = this.half - 1; // in `input`, of the next output
    this.phase = 0; // and behind it, in 1/up samples
  }

  filter(phase, band) {
    const cutoff = ROLL_OFF * band;
    const taps = Float32Array.from({ length: 2 * this.half }, (_, index) => {
      const distance = index - this.half + 1 - phase / this.up;
      const angle = Math.PI * distance * cutoff;
      const window = 0.5 + 0.5 * Math.cos((Math.PI * distance) / (this.half + 1));
      return (angle ? Math.sin(angle) / angle : 1) * window;
    });
    const sum = taps.reduce((total, tap) => total + tap, 0);
    return taps.map((tap) => tap / sum);
  }

  push(block) {
    const input = new Float32Array(this.input.length + block.length);
    input.set(this.input);
    input.set(block, this.input.length);
    const output = [];
    while (this.position + this.half < input.length) {
      const taps = this.filters[this.phase];
      const first = this.position - this.half + 1;
      let sum = 0;
      for (let index = 0; index < taps.length; index++) sum += taps[index] * input[first + index];
      output.push(sum);
      this.phase += this.down;
      this.position += Math.floor(this.phase / this.up);
      this.phase %= this.up;
    }
    const used = Math.min(this.position - this.half + 1, input.length);
    this.input = input.slice(used);
    this.position -= used;
    return output;
  }
}
