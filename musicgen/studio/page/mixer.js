// A line for each track with its colour, and buttons that mute it or let it play alone.

import { element } from "./form.js";

export function showMixer(box, tracks, silence) {
  const states = tracks.map(() => "");
  const update = () => {
    const isSolo = states.includes("solo");
    silence(new Set(tracks.map((_, number) => number).filter(number => isSolo ? states[number] !== "solo" : states[number] === "mute")));
    box.querySelectorAll("button").forEach(button => button.setAttribute("aria-pressed", String(states[button.dataset.track] === button.dataset.state)));
  };
  const button = (number, state, text) => element("button", {
    "data-track": number, "data-state": state, "aria-pressed": "false", "aria-label": `${state === "mute" ? "Mute" : "Solo"} ${tracks[number].name}`,
    onclick: () => { states[number] = states[number] === state ? "" : state; update(); },
  }, text);
  box.replaceChildren(...tracks.length > 1 ? tracks.map((track, number) =>
    element("span", { class: `track track-${number % 4}` }, track.name, button(number, "mute", "M"), button(number, "solo", "S"))) : []);
  update();
}
