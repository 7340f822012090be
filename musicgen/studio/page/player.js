// Plays a song that may still grow. Notes are scheduled a little ahead; the clock is that of the sound card.

const AHEAD = 0.35, AHEAD_HIDDEN = 2.0, EVERY = 60, FADE = 0.03;

let shared; // one context for all players of a page: browsers allow few

export class Player {
  // sounds: a promise of instruments, a SoundFont or a Synth.
  // on: { state(name) } with "playing", "paused", "waiting" (writing is slower than playing) or "ended".
  constructor(sounds, on) {
    this.on = on;
    this.song = null;
    this.place = 0; // the tick, while nothing plays
    this.loop = null; // [start, end] in ticks
    this.anchors = []; // { time, at }: from this time of the context on, the song is at this place
    this.voices = [];
    this.gains = [];
    this.silent = new Set();
    this.state = "paused";
    this.instruments = sounds;
    this.instruments.catch(() => {}); // whoever plays hears about it
  }

  // Make the context; browsers allow it only after a click or a key.
  async prepare() {
    if (!this.context) {
      this.context = shared ??= new AudioContext({ latencyHint: "interactive" });
      this.master = this.context.createGain();
      this.master.gain.value = 0.5;
      const limiter = this.context.createDynamicsCompressor();
      limiter.threshold.value = -9;
      limiter.ratio.value = 8;
      this.analyser = this.context.createAnalyser();
      this.master.connect(limiter).connect(this.analyser).connect(this.context.destination);
      this.timer = setInterval(() => this.schedule(), EVERY);
      document.addEventListener("visibilitychange", () => this.schedule());
    }
    if (this.context.state !== "running") this.context.resume();
    this.sounds = await this.instruments;
  }

  load(song) {
    this.place = this.tick;
    this.stopVoices();
    this.song = song;
    this.gains.forEach(gain => gain.disconnect());
    this.gains = [];
    if (this.isOn) this.start();
  }

  get isOn() { return this.state === "playing" || this.state === "waiting"; }

  get tick() {
    if (this.state !== "playing" || !this.anchors.length) return this.place;
    const now = this.context.currentTime;
    while (this.anchors.length > 1 && this.anchors[1].time <= now) this.anchors.shift();
    const seconds = Math.max(this.anchors[0].at + now - this.anchors[0].time, this.anchors[0].at);
    const limit = this.loop && this.cursor <= this.loop[1] ? Math.min(this.loop[1], this.song.end) : this.song.end;
    return Math.min(this.song.tick(seconds), limit);
  }

  async play() {
    await this.prepare();
    if (!this.song) return;
    if (!this.song.isGrowing && this.place >= this.song.end - 1) this.place = 0;
    this.start();
  }

  start() {
    this.stopVoices();
    if (!this.sounds) return;
    if (this.song.isGrowing && this.place >= this.song.end - 1) return this.become("waiting");
    this.cursor = Math.floor(this.place);
    this.anchors = [{ time: this.context.currentTime + 0.06, at: this.song.seconds(this.place) }];
    this.become("playing");
    this.schedule();
  }

  pause(state = "paused") {
    this.place = this.tick;
    this.stopVoices();
    this.become(state);
  }

  seek(tick) {
    this.stopVoices();
    this.place = Math.max(tick, 0);
    if (this.isOn) this.start();
  }

  become(state) {
    if (this.state === state) return;
    this.state = state;
    this.on.state?.(state);
  }

  stopVoices() {
    const now = this.context?.currentTime ?? 0;
    for (const voice of this.voices) {
      if (voice.stop < now) continue;
      voice.gain.cancelScheduledValues(now);
      voice.gain.setTargetAtTime(0, now, FADE / 3);
      try { voice.source.stop(now + FADE); } catch { /* it has ended */ }
    }
    this.voices = [];
    this.anchors = [];
  }

  schedule() {
    if (!this.song || !this.sounds) return;
    if (this.state === "waiting") {
      const ready = this.song.end - this.place;
      if (ready >= this.song.barTicks * 0.99 || !this.song.isGrowing && ready > 1) this.start();
      else if (!this.song.isGrowing) this.pause("ended");
      return;
    }
    if (this.state !== "playing") return;
    const now = this.context.currentTime, until = now + (document.hidden ? AHEAD_HIDDEN : AHEAD);
    for (;;) {
      const anchor = this.anchors[this.anchors.length - 1];
      const wanted = this.song.tick(anchor.at + until - anchor.time);
      const limit = this.loop ? Math.min(this.loop[1], this.song.end) : this.song.end;
      const isLooping = this.loop && this.cursor < limit + 1 && limit > this.loop[0];
      const end = Math.min(Math.ceil(wanted), limit);
      for (const note of this.song.notesBetween(this.cursor, end)) this.note(note, anchor);
      this.cursor = Math.max(this.cursor, end);
      if (!isLooping || wanted < limit) break;
      this.cursor = this.loop[0];
      this.anchors.push({ time: anchor.time + this.song.seconds(limit) - anchor.at, at: this.song.seconds(this.loop[0]) });
    }
    this.voices = this.voices.filter(voice => voice.stop > now);
    if (!this.loop && this.tick >= this.song.end) {
      this.place = this.song.end;
      this.anchors = [];
      this.become(this.song.isGrowing ? "waiting" : "ended");
    }
  }

  note([start, end, pitch, velocity, track], anchor) {
    const at = this.song.seconds(start), time = Math.max(anchor.time + at - anchor.at, this.context.currentTime);
    this.voices.push(...this.sounds.play(this.context, this.track(track), this.song.tracks[track], pitch, velocity, time, this.song.seconds(end) - at));
  }

  track(number) {
    if (!this.gains[number]) {
      const gain = this.gains[number] = this.context.createGain();
      gain.gain.value = this.silent.has(number) ? 0 : 1;
      gain.connect(this.master);
    }
    return this.gains[number];
  }

  silence(tracks) {
    this.silent = tracks;
    this.gains.forEach((gain, number) => gain.gain.setTargetAtTime(tracks.has(number) ? 0 : 1, this.context.currentTime, 0.01));
  }
}
