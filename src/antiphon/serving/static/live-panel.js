// State, clock, level and complaints, in words.

const WORDS = {
  connecting: () => "Connecting…",
  queued: ({ position, length, wait_s }) => {
    if (!position) return "All places are taken, waiting for one…";
    return `Waiting, place ${position} of ${length ?? position}${wait_s ? `, about ${Math.ceil(wait_s)} s` : ""}`;
  },
  reconnecting: ({ attempt, of }) => `Reconnecting, attempt ${attempt} of ${of}…`,
  listening: () => "Listening",
  muted: () => "Muted",
  speaking: () => "Speaking",
  stopped: () => "Stopped",
};
const EXPLAINED = {
  resource_exhausted: "All places are taken. Try again later.",
  ref_audio_required: "This server has no voice of its own. Choose a recording under Options.",
};
const FLOOR_DB = -60;

export const explain = ({ code, message }) => {
  const sentence = message[0].toUpperCase() + message.slice(1);
  return EXPLAINED[code] ?? (/[.!?]$/.test(sentence) ? sentence : `${sentence}.`);
};

export class Panel {
  constructor(at) {
    this.at = at; // id → element
    this.name = "stopped";
    this.since = 0;
  }

  show(name, detail = {}) {
    this.name = name;
    const text = WORDS[name](detail);
    // Readers say it aloud, so only what is new is written.
    if (this.at("state").textContent !== text) this.at("state").textContent = text;
    this.at("light").className = name;
    this.at("start").textContent = name === "stopped" ? "Start" : "Stop";
    this.at("start").classList.toggle("stop", name !== "stopped");
    document.body.classList.toggle("live", name !== "stopped");
  }

  complain(text) {
    this.at("trouble").textContent = text;
    this.at("trouble").hidden = !text;
  }

  startClock() {
    this.since = performance.now();
  }

  showClock() {
    const seconds = Math.floor((performance.now() - this.since) / 1000);
    this.at("clock").textContent = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  }

  showLevel(rms) {
    const level = Math.max(0, 1 - (20 * Math.log10(Math.max(rms, 1e-3))) / FLOOR_DB);
    this.at("level").firstElementChild.style.transform = `scaleX(${level.toFixed(2)})`;
    this.at("level").ariaValueNow = Math.round(level * 100);
  }

  askForKey() {
    this.at("key-field").closest("details").open = true;
    this.at("key").focus();
  }
}
