// Tokens of the language remi: which may follow, and the notes that they stand for.
// `table` comes from make.py: the families of tokens, the first id of each, and the table of the grammar.

const TICKS = 120, POSITIONS = 16; // of a sixteenth; of a bar

export function familyOf(table, id) {
  return table.families.findLast((family) => family.first <= id).name;
}

// Whether each token may follow the last one, by the table of the grammar alone.
export function allowed(table, last) {
  const state = last === null ? table.start : table.after[familyOf(table, last)];
  const mask = new Array(table.size).fill(false);
  for (const family of table.families) {
    if (table.rules[state].includes(family.name)) mask.fill(true, family.first, family.first + family.count);
  }
  return mask;
}

// The notes of a piece: {start, end, pitch, velocity} in ticks of 480 a beat, in the order of the tokens.
export function notes(table, tokens) {
  const found = [];
  const value = (id, name) => id - table.families.find((family) => family.name === name).first;
  let bar = -1, position = -1;
  const ids = tokens.slice(0, tokens.includes(table.end) ? tokens.indexOf(table.end) : undefined);
  for (let place = 0; place < ids.length; place++) {
    const [first, second, third] = ids.slice(place, place + 3).map((id) => familyOf(table, id));
    if (first === "Bar") [bar, position] = [bar + 1, -1];
    if (first === "Beat") position = value(ids[place], "Beat");
    if (first !== "Pitch" || second !== "Velocity" || third !== "Duration" || bar < 0 || position < 0) continue;
    const start = (bar * POSITIONS + position) * TICKS;
    const length = (value(ids[place + 2], "Duration") + 1) * (TICKS / 2);
    const pitch = table.lowest + value(ids[place], "Pitch");
    const velocity = table.softest + table.louder * value(ids[place + 1], "Velocity");
    found.push({ start, end: start + length, pitch, velocity });
  }
  return found;
}
