// A SoundFont (.sf2): its tables, and notes as Web Audio nodes. The specification (2.01) names the numbers below.

const CUTOFF = 8, RESONANCE = 9, ENVELOPE_TO_CUTOFF = 11, PAN = 17, FILTER = 25, VOLUME = 33, INSTRUMENT = 41,
  KEYS = 43, VELOCITIES = 44, ATTENUATION = 48, COARSE = 51, FINE = 52, SAMPLE = 53, MODE = 54, SCALE = 56, GROUP = 57, ROOT = 58;
const DEFAULTS = { [CUTOFF]: 13500, [SCALE]: 100, [ROOT]: -1, [KEYS]: 127 << 8, [VELOCITIES]: 127 << 8 };
for (const first of [FILTER, VOLUME]) for (const part of [0, 1, 2, 3, 5]) DEFAULTS[first + part] = -12000;
const NOT_ADDED = new Set([KEYS, VELOCITIES, SAMPLE, MODE, SCALE, ROOT, GROUP]);
const QUIET = 1e-4, DRUM_BANK = 128;

export async function loadSoundFont(address) {
  const answer = await fetch(address);
  return new SoundFont(await answer.arrayBuffer());
}

export class SoundFont {
  constructor(buffer) {
    this.data = new DataView(buffer);
    this.chunks = {};
    for (const [, start, size] of this.parts(12, buffer.byteLength)) {
      for (const [name, place, length] of this.parts(start + 4, start + size)) this.chunks[name] = [place, length];
    }
    for (const name of ["smpl", "phdr", "pbag", "pgen", "inst", "ibag", "igen", "shdr"]) {
      if (!this.chunks[name]) throw new Error(`the soundfont has no part ${name}`);
    }
    this.presets = this.table("phdr", 38, place => ({ program: this.u16(place + 20), bank: this.u16(place + 22), bag: this.u16(place + 24) }));
    this.instruments = this.table("inst", 22, place => ({ bag: this.u16(place + 20) }));
    this.samples = this.table("shdr", 46, place => ({
      start: this.u32(place + 20), end: this.u32(place + 24), loopStart: this.u32(place + 28), loopEnd: this.u32(place + 32),
      rate: this.u32(place + 36), root: this.data.getUint8(place + 40), correction: this.data.getInt8(place + 41),
    }));
    this.zoneCache = new Map();
    this.bufferCache = new Map();
  }

  u16(place) { return this.data.getUint16(place, true); }
  u32(place) { return this.data.getUint32(place, true); }

  * parts(place, end) {
    while (place + 8 <= end) {
      const name = String.fromCharCode(...[0, 1, 2, 3].map(i => this.data.getUint8(place + i))), size = this.u32(place + 4);
      yield [name, place + 8, size];
      place += 8 + size + size % 2;
    }
  }

  table(name, size, read) {
    const [start, length] = this.chunks[name];
    return Array.from({ length: Math.floor(length / size) }, (_, number) => read(start + number * size));
  }

  // The zones of a preset; if the font lacks it, of the first of its bank.
  zones(program, drums) {
    const key = drums ? -1 - program : program;
    if (this.zoneCache.has(key)) return this.zoneCache.get(key);
    const all = this.presets.slice(0, -1), bank = all.filter(preset => preset.bank === (drums ? DRUM_BANK : 0));
    const preset = bank.find(one => one.program === program) ?? bank[0] ?? (drums ? undefined : all[0]);
    const found = [];
    for (const outer of preset ? this.bags(this.presets, all.indexOf(preset), "pbag", "pgen", INSTRUMENT) : []) {
      for (const inner of this.bags(this.instruments, outer[INSTRUMENT], "ibag", "igen", SAMPLE)) {
        const zone = { ...inner };
        for (const kind of Object.keys(outer).map(Number)) {
          if (!NOT_ADDED.has(kind) && kind !== INSTRUMENT) zone[kind] = (inner[kind] ?? DEFAULTS[kind] ?? 0) + outer[kind];
        }
        for (const kind of [KEYS, VELOCITIES]) {
          const [a, b] = [inner, outer].map(one => one[kind] ?? DEFAULTS[kind]);
          zone[kind] = Math.max(a & 255, b & 255) | Math.min(a >> 8 & 255, b >> 8 & 255) << 8;
        }
        zone.sample = this.samples[zone[SAMPLE]];
        zone.number = zone[SAMPLE];
        if (zone.sample) found.push(zone);
      }
    }
    this.zoneCache.set(key, found);
    return found;
  }

  bags(heads, index, bags, generators, target) {
    const zones = [], first = heads[index]?.bag ?? 0, last = heads[index + 1]?.bag ?? first;
    let common = {};
    for (let bag = first; bag < last; bag++) {
      const place = this.chunks[bags][0] + 4 * bag, zone = { ...common };
      for (let number = this.u16(place); number < this.u16(place + 4); number++) {
        const at = this.chunks[generators][0] + 4 * number;
        zone[this.u16(at)] = this.data.getInt16(at + 2, true);
      }
      if (target in zone) zones.push(zone);
      else if (bag === first) common = zone;
    }
    return zones;
  }

  buffer(context, zone) {
    const sample = zone.sample, address = (fine, coarse) => value(zone, fine) + 32768 * value(zone, coarse);
    const start = sample.start + address(0, 4), end = sample.end + address(1, 12);
    const key = `${start}-${end}`;
    if (!this.bufferCache.has(key)) {
      const rate = Math.min(Math.max(sample.rate, 8000), 96000), frames = Math.max(end - start, 1);
      const made = context.createBuffer(1, frames, rate), into = made.getChannelData(0), from = this.chunks.smpl[0] + 2 * start;
      for (let i = 0; i < frames; i++) into[i] = this.data.getInt16(from + 2 * i, true) / 32768;
      this.bufferCache.set(key, made);
    }
    const rate = sample.rate;
    return { buffer: this.bufferCache.get(key), start: (sample.loopStart + address(2, 45) - start) / rate, end: (sample.loopEnd + address(3, 50) - start) / rate };
  }

  // Play a note into a node at a time of the context. Returns what can be stopped early.
  play(context, out, track, pitch, velocity, begin, length) {
    const voices = [];
    for (const zone of this.zones(track.program, track.drums)) {
      if (!covers(zone, KEYS, pitch) || !covers(zone, VELOCITIES, velocity)) continue;
      voices.push(this.voice(context, out, zone, pitch, velocity, begin, length));
    }
    return voices;
  }

  voice(context, out, zone, pitch, velocity, begin, length) {
    const source = context.createBufferSource(), gain = context.createGain(), { buffer, start, end } = this.buffer(context, zone);
    source.buffer = buffer;
    const root = value(zone, ROOT) >= 0 && value(zone, ROOT) <= 127 ? value(zone, ROOT) : Math.min(zone.sample.root, 127);
    const cents = (pitch - root) * value(zone, SCALE) + 100 * value(zone, COARSE) + value(zone, FINE) + zone.sample.correction;
    source.playbackRate.value = 2 ** (cents / 1200) * zone.sample.rate / buffer.sampleRate;
    if (value(zone, MODE) & 1 && start >= 0 && end > start) {
      source.loop = true;
      source.loopStart = start;
      source.loopEnd = end;
    }
    // The original hardware used 0.4 of the attenuation, and fonts are made for it.
    const peak = (velocity / 127) ** 2 * 10 ** (-0.4 * Math.max(value(zone, ATTENUATION), 0) / 200);
    const stop = this.envelope(gain.gain, zone, pitch, peak, begin, length);
    const pan = context.createStereoPanner();
    pan.pan.value = Math.min(Math.max(value(zone, PAN) / 500, -1), 1);
    let last = source;
    const filter = this.filter(context, zone, pitch, begin);
    if (filter) { last.connect(filter); last = filter; }
    last.connect(gain).connect(pan).connect(out);
    source.start(begin);
    source.stop(stop);
    source.onended = () => pan.disconnect();
    return { source, gain: gain.gain, stop };
  }

  // Attack, hold and decay until the note ends, then the release. Returns when it is silent.
  envelope(gain, zone, pitch, peak, begin, length) {
    const [delay, attack, hold, decay] = [0, 1, 2, 3].map(part => seconds(zone, VOLUME + part, pitch));
    const sustain = Math.max(10 ** (-Math.min(Math.max(value(zone, VOLUME + 4), 0), 1440) / 200), QUIET);
    const fall = decay * Math.min(-20 * Math.log10(sustain) / 100, 1);
    const rise = begin + delay, top = rise + attack, down = top + hold, low = down + fall, off = begin + Math.max(length, 0.02);
    const level = time => time < top ? Math.max((time - rise) / attack, 0) : time < down ? 1
      : time < low ? sustain ** ((time - down) / Math.max(fall, 1e-3)) : sustain;
    const release = Math.min(Math.max(seconds(zone, VOLUME + 5, 60), 0.03), 4);
    gain.setValueAtTime(0, begin);
    gain.setValueAtTime(0, Math.min(rise, off));
    if (off > rise) gain.linearRampToValueAtTime(peak * level(Math.min(top, off)), Math.min(top, off));
    if (off > down) {
      gain.setValueAtTime(peak, down);
      gain.exponentialRampToValueAtTime(Math.max(peak * level(Math.min(low, off)), QUIET * peak), Math.min(low, off));
    }
    const now = Math.max(peak * level(off), QUIET * peak);
    gain.setValueAtTime(now, off);
    gain.exponentialRampToValueAtTime(now * QUIET, off + 0.8 * release);
    return off + 0.8 * release;
  }

  filter(context, zone, pitch, begin) {
    const base = value(zone, CUTOFF), depth = value(zone, ENVELOPE_TO_CUTOFF);
    const hertz = cents => Math.min(8.176 * 2 ** (Math.min(Math.max(cents, 1500), 13500) / 1200), context.sampleRate / 2.1);
    if (Math.min(base, base + depth) >= 13000) return null;
    const filter = context.createBiquadFilter();
    filter.type = "lowpass";
    filter.Q.value = Math.min(Math.max(value(zone, RESONANCE), 0), 960) / 10 - 3.01;
    const [attack, hold, decay] = [1, 2, 3].map(part => seconds(zone, FILTER + part, pitch));
    const sustain = 1 - Math.min(Math.max(value(zone, FILTER + 4), 0), 1000) / 1000;
    filter.frequency.setValueAtTime(hertz(depth ? base + (attack < 0.01 ? depth : 0) : base), begin);
    if (depth) {
      filter.frequency.exponentialRampToValueAtTime(hertz(base + depth), begin + attack);
      filter.frequency.setValueAtTime(hertz(base + depth), begin + attack + hold);
      filter.frequency.exponentialRampToValueAtTime(hertz(base + depth * sustain), begin + attack + hold + decay * (1 - sustain) + 0.001);
    }
    return filter;
  }
}

function value(zone, kind) { return zone[kind] ?? DEFAULTS[kind] ?? 0; }
function covers(zone, kind, number) { return number >= (zone[kind] & 255) && number <= zone[kind] >> 8; }
function seconds(zone, kind, pitch) {
  const byKey = { 27: 31, 28: 32, 35: 39, 36: 40 }[kind];
  const cents = value(zone, kind) + (byKey ? value(zone, byKey) * (60 - pitch) : 0);
  return 2 ** (Math.min(Math.max(cents, -12000), 8000) / 1200);
}
