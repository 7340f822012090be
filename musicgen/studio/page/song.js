// A piece as the page knows it: its bars so far, and the way between ticks and seconds.

export class Song {
  constructor({ tracks, ticks_per_beat, bar_ticks, prompt_bars = 0 }) {
    this.tracks = tracks;
    this.ticksPerBeat = ticks_per_beat;
    this.barTicks = bar_ticks;
    this.promptBars = prompt_bars;
    this.bars = []; // for each bar its notes: [start, end, pitch, velocity, track]
    this.lines = [0]; // ticks at which bars begin, and at which the last ends
    this.chords = []; // [tick, name]
    this.tempos = [{ tick: 0, bpm: 120, seconds: 0 }];
    this.isGrowing = false;
    this.longest = 1; // bars that the longest note reaches over
  }

  addBar({ bar, end, notes, tempos, chords }) {
    if (bar !== this.bars.length) return;
    this.barTicks = end - this.lines[bar];
    for (const note of notes) this.longest = Math.max(this.longest, Math.ceil((note[1] - note[0]) / this.barTicks));
    this.bars.push(notes);
    this.lines.push(end);
    for (const [tick, name] of chords) this.chords.push([tick, name]);
    for (const [tick, bpm] of tempos) this.addTempo(tick, bpm);
  }

  addTempo(tick, bpm) {
    const last = this.tempos[this.tempos.length - 1];
    if (tick <= last.tick) last.bpm = bpm;
    else this.tempos.push({ tick, bpm, seconds: this.seconds(tick) });
  }

  get end() { return this.lines[this.bars.length]; }

  // Where a bar begins, counted from 0; bars that are not written yet are as long as the last.
  line(bar) {
    const last = this.bars.length;
    return bar <= last ? this.lines[Math.max(bar, 0)] : this.lines[last] + (bar - last) * this.barTicks;
  }

  // The bar that a tick is in, with its fraction.
  barAt(tick) {
    const last = this.bars.length;
    if (tick >= this.lines[last]) return last + (tick - this.lines[last]) / this.barTicks;
    let low = 0, high = last - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.lines[middle] <= tick) low = middle; else high = middle - 1;
    }
    return low + (tick - this.lines[low]) / (this.lines[low + 1] - this.lines[low]);
  }

  // The tick at a place counted in bars.
  tickOf(bar) {
    const whole = Math.floor(bar);
    return this.line(whole) + (bar - whole) * (this.line(whole + 1) - this.line(whole));
  }

  seconds(tick) {
    const tempo = this.tempoAt(tempo => tempo.tick <= tick);
    return tempo.seconds + (tick - tempo.tick) * 60 / (tempo.bpm * this.ticksPerBeat);
  }

  tick(seconds) {
    const tempo = this.tempoAt(tempo => tempo.seconds <= seconds);
    return tempo.tick + (seconds - tempo.seconds) * tempo.bpm * this.ticksPerBeat / 60;
  }

  tempoAt(isBefore) {
    let low = 0, high = this.tempos.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (isBefore(this.tempos[middle])) low = middle; else high = middle - 1;
    }
    return this.tempos[low];
  }

  * notesBetween(start, end) {
    const last = Math.min(Math.floor(this.barAt(end - 1)), this.bars.length - 1);
    for (let bar = Math.max(Math.floor(this.barAt(start)), 0); bar <= last; bar++) {
      for (const note of this.bars[bar]) if (note[0] >= start && note[0] < end) yield note;
    }
  }

  chordAt(tick) {
    let name = "";
    for (const [start, chord] of this.chords) { if (start > tick) break; name = chord; }
    return name;
  }
}
