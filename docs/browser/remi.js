// Tokens of pop piano without gaps: which may follow, when they are, and the notes and tempos that they stand for.
// `table` comes from make.py. Times are in units of the tokens, or in ticks of 480 a quarter note.

// When a token of a family may follow, as in musicgen/languages/remi/grammar.py.
const CONDITIONS = {
  always: () => true,
  later: (at, beat) => at.metre >= 0 && beat > at.beat && at.offset(beat) < at.length && (at.tempo >= 0 || beat === 0),
  free: (at, pitch) => pitch < at.pitch && at.upAt[pitch] <= at.now && at.tempo >= 0,
  sounded: (at) => at.notes > 0 && at.tempo >= 0,
  "other metre": (at, metre) => metre !== at.metre,
  "other tempo": (at, tempo) => tempo !== at.tempo,
  "other chord": (at, chord) => chord !== at.chord,
  closing: (at) => at.closedNotes > 0,
};

// A place in a piece: the grammar's state and counters, and the clock. `add` moves it on.
export class Place {
  constructor(table) {
    Object.assign(this, { table, state: table.start, before: null, bar: -1, start: 0, time: 0 });
    Object.assign(this, { metre: table.metre, length: table.bars[table.common], beat: -1, pitch: table.pitches });
    Object.assign(this, { tempo: -1, chord: -1, notes: 0, barNotes: 0, closedNotes: 0 });
    this.upAt = new Array(table.pitches).fill(0);
  }

  offset(beat) {
    return this.table.step * beat;
  }

  // Units since the beginning.
  get now() {
    return this.start + this.offset(this.beat);
  }

  // Whether a position of the bar was named.
  get isPlaced() {
    return this.beat >= 0 && this.offset(this.beat) < this.length;
  }

  add(id) {
    const { name, value } = meaning(this.table, id);
    this.state = this.table.after[name];
    this[`add${name}`]?.(value);
    this.before = name;
    this.time = Math.max(this.time, this.isPlaced ? this.now : this.start);
  }

  addBar() {
    if (this.bar >= 0) this.start += this.length;
    Object.assign(this, { bar: this.bar + 1, beat: -1, closedNotes: this.barNotes, barNotes: 0 });
  }

  addMetre(value) {
    if (this.before === "Bar") Object.assign(this, { metre: value, length: this.table.bars[value] });
  }

  addBeat(value) {
    Object.assign(this, { beat: value, pitch: this.table.pitches });
  }

  addTempo(value) {
    this.tempo = value;
  }

  addChord(value) {
    this.chord = value;
  }

  addPitch(value) {
    Object.assign(this, { pitch: value, notes: this.notes + 1, barNotes: this.barNotes + 1 });
  }

  addDuration(value) {
    this.upAt[this.pitch] = this.now + this.table.durations[value];
  }
}

// The name of a token's family, and the number of the token in it.
export function meaning(table, id) {
  const { name, first } = table.families.findLast((family) => family.first <= id);
  return { name, value: id - first };
}

// Whether each token may follow at a place: what Python's grammar allows, without gaps.
export function allowed(place) {
  const { families, rules, size } = place.table, mask = new Array(size).fill(false);
  for (const { name, first, count } of families) {
    const holds = CONDITIONS[rules[place.state][name]];
    for (let value = 0; holds && value < count; value++) mask[first + value] = holds(place, value);
  }
  return mask;
}

// The time after each token, in units.
export function clock(table, tokens) {
  const place = new Place(table);
  return tokens.map((id) => (place.add(id), place.time));
}

// The notes of a piece: {start, end, pitch, velocity} in ticks, in the order of the tokens.
export function notes(table, tokens) {
  const found = [], all = [...placed(table, tokens)];
  all.forEach(({ name, value, tick }, index) => {
    const [second, third] = all.slice(index + 1, index + 3);
    if (tick === null || name !== "Pitch" || second?.name !== "Velocity" || third?.name !== "Duration") return;
    const end = tick + table.durations[third.value] * table.ticks;
    found.push({ start: tick, end, pitch: table.lowest + value, velocity: table.velocities[second.value] });
  });
  return found;
}

// The tempos of a piece: {tick, bpm}, in quarter notes per minute.
export function tempos(table, tokens) {
  const said = [...placed(table, tokens)].filter(({ name, tick }) => name === "Tempo" && tick !== null);
  return said.map(({ value, tick }) => ({ tick, bpm: table.tempos[value] }));
}

// The time of a tick in seconds.
export function seconds(changes, tick) {
  let [time, last, bpm] = [0, 0, 120];
  for (const change of changes.filter((change) => change.tick <= tick)) {
    time += ((change.tick - last) * 60) / (bpm * 480);
    [last, bpm] = [change.tick, change.bpm];
  }
  return time + ((tick - last) * 60) / (bpm * 480);
}

// What each token is, and its tick; null if no position was named in its bar.
function* placed(table, tokens) {
  const place = new Place(table), padding = table.families.find(({ name }) => name === "PAD").first;
  for (const id of tokens) {
    if (id === table.end) return;
    if (id === padding) continue;
    place.add(id);
    yield { ...meaning(table, id), tick: place.bar >= 0 && place.isPlaced ? place.now * table.ticks : null };
  }
}
