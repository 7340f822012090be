// Simple instruments of oscillators and noise, for pages that carry no soundfont. They have the interface of a SoundFont.

const SILENT = 1e-3, ATTACK = 0.006, RELEASE = 0.12;
const HARMONICS = [0, 1, 0.45, 0.25, 0.14, 0.08, 0.05]; // of struck and plucked strings, roughly
const KICKS = [35, 36], SNARES = [37, 38, 39, 40], TOMS = [41, 43, 45, 47, 48, 50], RINGING = [46, 49, 51, 52, 53, 55, 57, 59];

export class Synth {
  constructor() {
    this.made = new WeakMap(); // for each context its noise and its wave
  }

  // Play a note into a node at a time of the context. Returns what can be stopped early.
  play(context, out, { program, drums }, pitch, velocity, begin, length) {
    const peak = 0.5 * (velocity / 127) ** 2;
    return [drums ? this.drum(context, out, pitch, peak, begin) : this.tone(context, out, program, pitch, peak, begin, length)];
  }

  tone(context, out, program, pitch, peak, begin, length) {
    const source = context.createOscillator(), gain = context.createGain(), off = begin + Math.max(length, 0.05), stop = off + RELEASE;
    source.setPeriodicWave(this.parts(context).wave);
    source.frequency.value = hertz(pitch);
    gain.gain.setValueAtTime(0, begin);
    gain.gain.linearRampToValueAtTime(peak, begin + ATTACK);
    // Struck and plucked strings fade, high ones sooner; winds, organs and bows hold.
    const fades = program < 16 || program >= 24 && program < 40 || program >= 104;
    gain.gain.setTargetAtTime(fades ? 0 : 0.7 * peak, begin + ATTACK, fades ? 1.6 * 2 ** ((60 - pitch) / 18) : 0.3);
    gain.gain.setTargetAtTime(0, off, RELEASE / 4);
    return voice(source, gain, [], out, begin, stop);
  }

  drum(context, out, pitch, peak, begin) {
    const gain = context.createGain();
    if (KICKS.includes(pitch) || TOMS.includes(pitch)) {
      const source = context.createOscillator(), low = KICKS.includes(pitch) ? 48 : 90 + 8 * (pitch - 41);
      source.frequency.setValueAtTime(3 * low, begin);
      source.frequency.exponentialRampToValueAtTime(low, begin + 0.07);
      return struck(source, gain, [], out, 1.6 * peak, begin, 0.3);
    }
    const source = context.createBufferSource(), filter = context.createBiquadFilter(), isSnare = SNARES.includes(pitch);
    source.buffer = this.parts(context).noise;
    filter.type = isSnare ? "bandpass" : "highpass";
    filter.frequency.value = isSnare ? 1800 : 7000;
    return struck(source, gain, [filter], out, (isSnare ? 1.2 : 0.5) * peak, begin, RINGING.includes(pitch) ? 0.6 : isSnare ? 0.18 : 0.06);
  }

  parts(context) {
    if (!this.made.has(context)) {
      const noise = context.createBuffer(1, context.sampleRate, context.sampleRate), samples = noise.getChannelData(0);
      for (let i = 0, seed = 1; i < samples.length; i++) {
        seed = seed * 16807 % 2147483647;
        samples[i] = seed / 1073741824 - 1;
      }
      this.made.set(context, { noise, wave: context.createPeriodicWave(new Float32Array(HARMONICS.length), Float32Array.from(HARMONICS)) });
    }
    return this.made.get(context);
  }
}

function hertz(pitch) { return 440 * 2 ** ((pitch - 69) / 12); }

function struck(source, gain, filters, out, peak, begin, seconds) {
  gain.gain.setValueAtTime(Math.max(peak, SILENT), begin);
  gain.gain.exponentialRampToValueAtTime(SILENT * Math.max(peak, SILENT), begin + seconds);
  return voice(source, gain, filters, out, begin, begin + seconds);
}

function voice(source, gain, filters, out, begin, stop) {
  [...filters, gain, out].reduce((last, node) => last.connect(node), source);
  source.start(begin);
  source.stop(stop);
  source.onended = () => gain.disconnect();
  return { source, gain: gain.gain, stop };
}
