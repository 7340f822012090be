// Tokens of a piece, one by one, from step.onnx and step.json. `ort` is onnxruntime-web or onnxruntime-node.

import { Place, allowed, meaning } from "./remi.js";

const ARRAYS = { float32: Float32Array, float64: Float64Array, int64: BigInt64Array };

// The model with its state. It reads the tokens of one piece.
export class Model {
  constructor(ort, session, about, table) {
    Object.assign(this, { ort, session, about, table, place: new Place(table), index: 0, before: null, state: {} });
    for (const name of Object.keys(about.inputs)) {
      if (`next_${name}` in about.outputs) this.state[name] = this.tensor(name, about.start[name.replace(/_\d+$/, "")]);
    }
  }

  // An input of a batch of one piece, filled with a number.
  tensor(name, number) {
    const { type, shape } = this.about.inputs[name], own = [1, ...shape.slice(1)];
    const values = new ARRAYS[type](own.reduce((a, b) => a * b, 1)).fill(type === "int64" ? BigInt(number) : number);
    return new this.ort.Tensor(type, values, own);
  }

  // The logits after the next token.
  async step(token) {
    this.place.add(token);
    const { in_time, resolution, units } = this.table;
    const time = (this.place.time * resolution) / units;
    const inputs = { token: this.tensor("token", token), ...this.state };
    inputs.position = this.tensor("position", in_time ? time : this.index);
    if ("elapsed" in this.about.inputs) inputs.elapsed = this.tensor("elapsed", time - (this.before ?? time));
    const outputs = await this.session.run(inputs);
    for (const name of Object.keys(this.state)) this.state[name] = outputs[`next_${name}`];
    [this.index, this.before] = [this.index + 1, time];
    return outputs.logits.data;
  }
}

// The tokens of a piece of some bars, or a shorter one if the model ends it. Chances are those of the bundle.
export async function* write(ort, session, about, table, { bars, random = Math.random }) {
  const model = new Model(ort, session, about, table);
  for (let token = table.first; ; ) {
    yield token;
    const logits = await model.step(token);
    if (token === table.end || model.place.bar >= bars) return;
    const likely = distribution(table, logits, allowed(model.place));
    let chance = random() * likely.reduce((a, b) => a + b, 0);
    token = likely.findIndex((part) => (chance -= part) < 0);
    if (token < 0) token = likely.indexOf(Math.max(...likely)); // rounding of the sum
  }
}

// The probability of each token, as in musicgen/sampling/choose.py. A token of rhythm is as likely as without settings
// of its own; only which one comes is chosen by them.
export function distribution(table, logits, mask) {
  const ids = [...mask.keys()].filter((id) => mask[id]);
  const likely = ranked(logits, ids, table.sampling);
  const own = table.rhythm && ids.filter((id) => table.rhythm.families.includes(meaning(table, id).name));
  const total = own ? own.reduce((sum, id) => sum + likely[id], 0) : 0;
  if (total === 0) return likely;
  const chosen = ranked(logits, own, table.rhythm.sampling);
  for (const id of own) likely[id] = total * chosen[id];
  return likely;
}

// The probabilities of some tokens after all cuts. The most likely is never cut.
function ranked(logits, ids, { temperature, top_p, top_k, min_p }) {
  const order = [...ids].sort((a, b) => logits[b] - logits[a]), likely = new Float64Array(logits.length);
  const weights = order.map((id) => Math.exp((logits[id] - logits[order[0]]) / (temperature || 1)));
  const most = temperature === 0 ? 1 : (top_k ?? order.length);
  const kept = weights.slice(0, most).filter((weight) => weight >= min_p);
  const total = kept.reduce((a, b) => a + b, 0);
  let before = 0;
  kept.forEach((weight, rank) => {
    if (rank === 0 || top_p === 1 || before < top_p) likely[order[rank]] = weight / total;
    before += weight / total;
  });
  const sum = likely.reduce((a, b) => a + b, 0);
  return likely.map((part) => part / sum);
}
