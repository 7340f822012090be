// Tokens of a piece, one by one, from step.onnx and step.json. `ort` is onnxruntime-web or onnxruntime-node.

import { allowed } from "./remi.js";

const ARRAYS = { float32: Float32Array, float64: Float64Array, int64: BigInt64Array };

export async function* write(ort, session, about, table, settings) {
  const shape = (name) => [1, ...about.inputs[name].shape.slice(1)];
  const tensor = (name, data) => new ort.Tensor(about.inputs[name].type, ARRAYS[about.inputs[name].type].from(data), shape(name));
  const filled = (name, number) => tensor(name, new Array(shape(name).reduce((a, b) => a * b, 1)).fill(number));
  let state = {};
  for (const name of Object.keys(about.inputs)) {
    if (`next_${name}` in about.outputs) state[name] = filled(name, about.start[name.replace(/_\d+$/, "")]);
  }
  let token = table.first;
  for (let index = 0; index < settings.tokens && token !== table.end; index++) {
    yield token;
    const inputs = { token: tensor("token", [BigInt(token)]), position: tensor("position", [index]), ...state };
    const outputs = await session.run(inputs);
    state = Object.fromEntries(Object.keys(state).map((name) => [name, outputs[`next_${name}`]]));
    token = choose(outputs.logits.data, allowed(table, token), settings);
  }
}

// One of the tokens that may follow, by temperature and nucleus.
export function choose(logits, mask, { temperature, topP, random = Math.random }) {
  const ids = [...mask.keys()].filter((id) => mask[id]).sort((a, b) => logits[b] - logits[a]);
  const weights = ids.map((id) => Math.exp((logits[id] - logits[ids[0]]) / temperature));
  const total = weights.reduce((a, b) => a + b, 0);
  let kept = 0, sum = 0;
  while (kept < ids.length && sum < topP * total) sum += weights[kept++];
  let chance = random() * sum;
  for (let place = 0; place < kept; place++) if ((chance -= weights[place]) < 0) return ids[place];
  return ids[kept - 1];
}
