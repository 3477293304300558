// What was said, as it is said: marks of the user's speech, and the model's text with the part that has been spoken.

const SPEECH_HZ = 24000;
const MAX_ENTRIES = 300; // older ones leave the page

const make = (tag, className, text = "") => {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  return element;
};

const seconds = (ms) => `${(ms / 1000).toFixed(1)} s`;

export class Reply {
  // One response: its text, which of it belongs to which samples, and how it ended.
  constructor(id, element) {
    this.id = id;
    this.text = "";
    this.samples = 0; // received
    this.played = 0;
    this.acknowledged = 0;
    this.status = null; // as the server ended it
    this.isStopped = false; // what still comes is not for the ear
    this.isOver = false; // nothing of it will be heard any more
    this.marks = [{ chars: 0, samples: 0 }];
    this.spoken = make("span", "spoken");
    this.ahead = make("span", "ahead");
    this.facts = make("p", "facts");
    const words = make("p", "");
    words.append(this.spoken, this.ahead);
    element.append(words, this.facts);
    element.hidden = true; // until there is something to show
    this.element = element;
  }

  add(text) {
    // It belongs to all samples since the last text.
    this.text += text;
    this.marks.push({ chars: this.text.length, samples: this.samples });
  }

  get isCut() {
    return this.isStopped && (this.status !== "completed" || this.played < this.samples);
  }

  get heardChars() {
    // Interpolated between marks, as the server does for its history.
    let before = this.marks[0];
    for (const mark of this.marks) {
      if (mark.samples > this.played) {
        const share = (this.played - before.samples) / (mark.samples - before.samples);
        return before.chars + Math.floor((mark.chars - before.chars) * share);
      }
      before = mark;
    }
    return this.text.length;
  }

  show() {
    const chars = this.isOver && !this.isCut ? this.text.length : this.heardChars;
    this.element.hidden = !this.text && !this.samples;
    this.element.classList.toggle("cut", this.isOver && this.isCut);
    this.spoken.textContent = this.text.slice(0, chars);
    this.ahead.textContent = this.text.slice(chars);
    const heard = `${(this.played / SPEECH_HZ).toFixed(1)} s`;
    if (this.isOver && this.isCut) this.facts.textContent = `${this.status === "failed" ? "failed" : "interrupted"} after ${heard}`;
    else if (this.isOver) this.facts.textContent = this.samples ? `${heard} of speech` : "";
    else this.facts.textContent = this.samples ? `speaking, ${heard}` : "";
  }
}

export class Transcript {
  constructor(log) {
    this.log = log;
    this.speech = null; // the mark of the user's speech that goes on
  }

  clear() {
    this.log.replaceChildren();
    this.speech = null;
  }

  entry(className) {
    // A reader who scrolled up is left where they are.
    const isAtEnd = innerHeight + scrollY > document.documentElement.scrollHeight - 120;
    const element = make("div", `turn ${className}`);
    this.log.append(element);
    while (this.log.childElementCount > MAX_ENTRIES) this.log.firstElementChild.remove();
    this.isFollowing = isAtEnd;
    return element;
  }

  follow() {
    if (this.isFollowing) this.log.lastElementChild?.scrollIntoView({ block: "end" });
  }

  reply(id) {
    return new Reply(id, this.entry("assistant"));
  }

  note(text) {
    this.entry("note").append(make("p", "", text));
    this.follow();
  }

  speechBegan(start_ms) {
    // *start_ms*: where in the sound it began, if the server said so; else the clock is asked.
    if (this.speech) return;
    const element = this.entry("user");
    const text = make("p", "", "You are speaking");
    element.append(text);
    this.speech = { text, start_ms, since: performance.now() };
    this.follow();
  }

  speechEnded(end_ms) {
    if (!this.speech) return;
    const { text, start_ms, since } = this.speech;
    const isTold = start_ms !== undefined && end_ms > start_ms;
    text.textContent = `You spoke, ${seconds(isTold ? end_ms - start_ms : performance.now() - since)}`;
    this.speech = null;
  }
}
