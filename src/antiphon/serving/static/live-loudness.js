// Whether somebody speaks into the microphone, by its loudness alone: for marks in the transcript, nothing else.

const LOUD_RMS = 0.02;
const QUIET_RMS = 0.01;
const STARTS_AFTER = 2; // loud levels in a row, of 50 ms
const STOPS_AFTER = 12; // quiet ones

export class Loudness {
  constructor(onChange) {
    this.onChange = onChange;
    this.isSpeech = false;
    this.count = 0; // levels in a row that speak for a change
  }

  push(rms) {
    const isChange = this.isSpeech ? rms < QUIET_RMS : rms > LOUD_RMS;
    this.count = isChange ? this.count + 1 : 0;
    if (this.count < (this.isSpeech ? STOPS_AFTER : STARTS_AFTER)) return;
    this.isSpeech = !this.isSpeech;
    this.count = 0;
    this.onChange(this.isSpeech);
  }
}
