// Pieces on a page without a server: each gets a roll, a button and a clock. A piece sounds as its recording, or with simple
// instruments where there is none. A piece is shown when it comes into view, so a page of hundreds opens at once.

const pieces = [], synth = Promise.resolve(new Synth());

// A recording of a song; a Player to whoever uses it.
class Recording {
  constructor(sound, on) {
    this.sound = sound;
    for (const kind of ["play", "pause", "ended", "seeked"]) sound.addEventListener(kind, () => on.state(this.isOn ? "playing" : "paused"));
  }

  load(song) { this.song = song; }
  get isOn() { return !this.sound.paused && !this.sound.ended; }
  get tick() { return Math.min(this.song.tick(this.sound.currentTime), this.song.end); }
  play() { return this.sound.play(); }
  pause() { this.sound.pause(); }
  seek(tick) { this.sound.currentTime = this.song.seconds(tick); }
}

class Piece {
  constructor(place) {
    const music = JSON.parse(place.dataset.music), song = this.song = new Song(music), title = place.getAttribute("aria-label");
    music.bars.forEach(bar => song.addBar(bar));
    this.button = document.createElement("button");
    this.button.addEventListener("click", () => this.toggle());
    this.clock = document.createElement("output");
    const controls = document.createElement("div"), box = document.createElement("div");
    controls.className = "controls";
    controls.append(this.button, this.clock, ...song.tracks.length > 1 ? song.tracks.map(legend) : []);
    for (const still of place.querySelectorAll(".roll, audio")) still.hidden = true;
    place.append(box, controls);
    this.roll = new Roll(box, { seek: tick => this.seek(tick) });
    this.roll.barWidth = Math.max((box.clientWidth - 60) / song.bars.length, box.clientWidth < 480 ? 110 : 72);
    this.roll.show(song);
    box.setAttribute("aria-label", `Place in ${title}`);
    box.addEventListener("keydown", event => this.press(event));
    this.title = title;
    const sound = place.querySelector("audio"), on = { state: () => this.show() };
    this.player = sound ? new Recording(sound, on) : new Player(synth, on);
    this.player.load(song);
    this.show();
  }

  async toggle() {
    if (this.player.isOn) return this.player.pause();
    quiet(this.player);
    try {
      await this.player.play();
    } catch { // the recording is not there: the page was moved without its folder
      this.player = new Player(synth, { state: () => this.show() });
      this.player.load(this.song);
      this.player.seek(this.roll.playhead);
      await this.player.play();
    }
  }

  seek(tick) {
    this.player.seek(tick);
    this.roll.setPlayhead(tick);
    this.show();
  }

  press(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === " ") this.toggle();
    else if (event.key === "Home") this.go(0);
    else if (step) this.go(Math.floor(this.song.barAt(this.roll.playhead) + (step < 0 ? 0.7 : 0)) + step);
    else return;
    event.preventDefault();
  }

  go(bar) {
    const tick = this.song.line(Math.min(Math.max(bar, 0), this.song.bars.length - 1));
    this.seek(tick);
    this.roll.reveal(tick);
  }

  show() {
    const { song, player } = this, tick = player.tick, bars = song.bars.length;
    this.roll.setPlayhead(tick, player.isOn);
    const bar = Math.min(Math.floor(song.barAt(tick)), Math.max(bars - 1, 0)) + 1;
    this.clock.textContent = `${minutes(song.seconds(tick))} / ${minutes(Math.round(song.seconds(song.end)))} · bar ${bar} of ${bars}`;
    this.button.setAttribute("aria-label", `${player.isOn ? "Pause" : "Play"} ${this.title}`);
    this.button.className = player.isOn ? "on" : "";
    if (player.isOn && !this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.show(); });
  }
}

// One piece at a time.
function quiet(except) {
  for (const { player } of pieces) if (player !== except) player.pause();
  for (const sound of document.querySelectorAll("audio")) if (sound !== except.sound) sound.pause();
}

function legend({ name }, number) {
  const words = document.createElement("span");
  words.className = `track track-${number % 4}`;
  words.textContent = name;
  return words;
}

function minutes(seconds) { return `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`; }

document.addEventListener("play", ({ target }) => quiet(pieces.find(({ player }) => player.sound === target)?.player ?? { sound: target }), true);
const observer = new IntersectionObserver(entries => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    observer.unobserve(target);
    pieces.push(new Piece(target));
  }
}, { rootMargin: "600px" });
document.querySelectorAll("[data-music]").forEach(place => observer.observe(place));
