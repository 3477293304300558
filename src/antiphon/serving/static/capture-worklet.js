// Takes the microphone in: mono, 16 kHz, 16 bit, in blocks that add up to whole seconds.

import { Resampler } from "./resample.js";

const RATE_HZ = 16000;
const BLOCK_SAMPLES = 3200; // 200 ms
const LEVEL_SAMPLES = 800; // 50 ms

class Capture extends AudioWorkletProcessor {
  constructor() {
    super();
    this.resampler = new Resampler(sampleRate, RATE_HZ);
    this.block = new Int16Array(BLOCK_SAMPLES);
    this.filled = 0;
    this.power = 0;
    this.measured = 0;
  }

  process([channels]) {
    if (!channels.length) return true; // nothing is connected
    const mono = channels.length === 1 ? channels[0] : channels[0].map((_, at) => this.mean(channels, at));
    for (const sample of this.resampler.push(mono)) this.take(sample);
    return true;
  }

  mean(channels, at) {
    return channels.reduce((sum, channel) => sum + channel[at], 0) / channels.length;
  }

  take(sample) {
    this.block[this.filled++] = Math.round(Math.max(-1, Math.min(1, sample)) * 32767);
    this.power += sample * sample;
    if (++this.measured === LEVEL_SAMPLES) {
      this.port.postMessage({ type: "level", rms: Math.sqrt(this.power / LEVEL_SAMPLES) });
      this.power = this.measured = 0;
    }
    if (this.filled < BLOCK_SAMPLES) return;
    this.port.postMessage({ type: "block", samples: this.block }, [this.block.buffer]);
    this.block = new Int16Array(BLOCK_SAMPLES);
    this.filled = 0;
  }
}

registerProcessor("antiphon-capture", Capture);
