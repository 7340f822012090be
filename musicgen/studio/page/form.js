// The form of a request. Its fields and their texts come from the studio, which has them from the declared options.

const FIRST = ["key", "chords", "tempo"], LENGTHS = ["bars", "seconds", "tokens"];
const FILE_KEYS = ["prompt_bars", "pedal", "grid", "prompt_tempo", "other"];
const MUSICAL = ["pitches", "polyphony", "metre", "tracks", "ending", "temperature", "top_p", "seed"]; // before the technical ones

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

// What is empty in the form is no wish any more.
export function nothing() {
  const wishes = Object.fromEntries(["key", "chords", "tempo", "pitches", "polyphony", "metre", "temperature", "top_p", "top_k", "min_p",
    "rhythm_temperature", "rhythm_top_p", "rhythm_min_p", "tracks"].map(key => [key, null]));
  return { ...wishes, ending: "cadence" };
}

export class Form {
  // on: { write(values), radio(values), apply(values), file(file), bars(), forget() }
  constructor(form, options, models, on) {
    this.form = form;
    this.on = on;
    this.options = new Map(options.map(option => [option.key, option]));
    this.models = models;
    this.fields = new Map();
    this.prompt = this.file = null;
    this.form.noValidate = true; // the library says what is wrong
    this.build();
    this.choose(models[0].name);
  }

  build() {
    const model = element("select", { id: "model", onchange: () => this.choose(model.value) },
      ...this.models.map(one => element("option", { value: one.name }, `${one.name} (${one.plays})`)));
    this.model = model;
    const lengths = [["bars", "Bars", 16], ["seconds", "Seconds", 30]];
    const length = element("input", { id: "length", type: "number", min: 1, value: 16, "aria-label": "Length" });
    this.length = length;
    const kinds = lengths.map(([key, label, value], number) => element("label", { title: this.options.get(key).help },
      element("input", { type: "radio", name: "kind", value: key, checked: number === 0, onchange: () => { length.value = value; } }), label));
    const drop = element("div", { id: "drop", class: "drop" },
      element("label", { class: "file" }, "Drop a MIDI file here, or choose one",
        element("input", { id: "file", type: "file", accept: ".mid,.midi,audio/midi", onchange: event => this.chooseFile(event.target) })),
      element("div", { id: "prompt", hidden: true }), this.buildReading());
    const known = [...FIRST, ...LENGTHS, ...FILE_KEYS, ...MUSICAL];
    const more = [...MUSICAL, ...[...this.options.keys()].filter(key => !known.includes(key))];
    this.error = element("p", { id: "form-error", class: "error", role: "alert" });
    const wrong = () => element("small", { class: "error", role: "alert" });
    this.ofModel = { input: model, field: element("label", { class: "field" }, element("span", {}, "Model"), model, wrong()) };
    this.ofLength = { input: length, field: element("fieldset", { class: "length" }, element("legend", {}, "Length"), ...kinds, length, wrong()) };
    this.form.append(
      this.ofModel.field,
      this.ofLength.field,
      ...FIRST.map(key => this.field(key)),
      element("details", { class: "more" }, element("summary", {}, "More settings"), ...more.map(key => this.field(key))),
      drop,
      this.error,
      element("div", { class: "buttons" },
        element("button", { id: "go", class: "primary", type: "submit" }, "Write"),
        element("button", { id: "radio", type: "button", title: "Music without end; change the settings while it plays", onclick: () => this.send(this.on.radio) }, "Radio"),
        element("button", { id: "apply", type: "button", hidden: true, title: "The settings hold from the next bar", onclick: () => this.send(this.on.apply) }, "Use from the next bar")),
    );
    this.apply = this.form.querySelector("#apply");
    this.form.addEventListener("submit", event => { event.preventDefault(); this.send(this.on.write); });
  }

  field(key) {
    const option = this.options.get(key), id = `option-${key}`, name = key.replaceAll("_", " ");
    const isNumber = option.kind === "integer" || option.kind === "number";
    const input = option.kind === "boolean" || option.choices.length
      ? element("select", { id, "aria-describedby": `${id}-help` },
        ...(option.choices.length ? option.choices : option.default === null ? ["", "true", "false"] : [String(option.default), String(!option.default)])
          .map(text => element("option", { value: text }, { true: "yes", false: "no", "": "–" }[text] ?? text)))
      : element("input", {
        id, type: isNumber ? "number" : "text", step: option.kind === "integer" ? 1 : isNumber ? "any" : null,
        min: option.least ?? option.above, max: option.most, placeholder: key === "seed" ? "a new one each time" : "any", "aria-describedby": `${id}-help`,
      });
    const field = element("label", { class: "field", "data-key": key },
      element("span", {}, name[0].toUpperCase() + name.slice(1)), input,
      element("small", { id: `${id}-help` }, option.help),
      element("small", { class: "error", role: "alert" }));
    this.fields.set(key, { option, input, field });
    return field;
  }

  choose(name) {
    this.model.value = name;
    const { sampling } = this.models.find(one => one.name === name);
    for (const [key, value] of Object.entries(sampling)) if (this.fields.has(key)) this.fields.get(key).input.placeholder = value ?? "off";
    if (this.prompt) this.on.bars();
  }

  // Whether a model was made to fill gaps.
  sees(model) { return Boolean(this.models.find(one => one.name === model)?.sees_what_follows); }

  chooseFile(input) {
    if (input.files[0]) this.on.file(input.files[0]);
    input.value = "";
  }

  // How a file is read. It can be changed when one is shown, and when one was refused.
  buildReading() {
    this.how = element("details", { class: "more", hidden: true }, element("summary", {}, "How it is read"), ...FILE_KEYS.slice(1).map(key => this.field(key)));
    this.how.addEventListener("change", () => { if (this.prompt) this.on.bars(); else if (this.file) this.on.file(this.file); });
    return this.how;
  }

  // What a file is read with, for an address.
  reading(more) {
    const settings = this.settings(), how = FILE_KEYS.slice(1).filter(key => key in settings).map(key => [key, settings[key]]);
    return new URLSearchParams([...Object.entries({ model: this.model.value, ...more }), ...how]);
  }

  // What the form says, without what is left empty.
  settings() {
    const values = {};
    for (const [key, { option, input }] of this.fields) {
      const text = input.validity.badInput ? "?" : input.value.trim();
      if (text === "" || text === String(option.default)) continue;
      if (option.kind === "boolean") values[key] = text === "true";
      else values[key] = text !== "?" && (option.kind === "integer" || option.kind === "number") ? Number(text) : text;
    }
    return values;
  }

  values() {
    const kind = this.form.querySelector("input[name=kind]:checked").value, values = this.settings();
    values.seed ??= Math.floor(Math.random() * 1e6);
    if (!this.prompt) for (const key of FILE_KEYS) delete values[key];
    return { model: this.model.value, [kind]: Number(this.length.value), ...values, ...(this.prompt ? { prompt: this.prompt.id } : {}) };
  }

  async send(what) {
    this.complain("");
    try { await what(this.values()); } catch (error) { this.complain(error.message); }
  }

  // A sentence beside the field that it names, or below all of them.
  complain(sentence) {
    const places = [this.ofModel, this.ofLength, ...this.fields.values()];
    for (const { field, input } of places) { field.lastChild.textContent = ""; input.removeAttribute("aria-invalid"); }
    this.error.textContent = "";
    const key = /^([a-z_]+)(=|:)/.exec(sentence)?.[1];
    const place = key === "model" ? this.ofModel : LENGTHS.includes(key) ? this.ofLength : this.fields.get(key);
    if (!sentence) return;
    if (place) {
      place.field.lastChild.textContent = sentence;
      place.field.closest("details")?.setAttribute("open", "");
      place.input.setAttribute("aria-invalid", "true");
      place.input.focus();
      place.field.scrollIntoView({ block: "center" }); // not behind the buttons
    } else this.error.textContent = sentence;
  }

  // Show a file that will be continued; null forgets it.
  showPrompt(prompt) {
    this.prompt = prompt;
    const place = this.form.querySelector("#prompt");
    place.hidden = !prompt;
    if (!prompt) {
      this.file = null;
      this.how.hidden = true;
      return place.replaceChildren();
    }
    if (place.dataset.id === prompt.id && place.firstChild) {
      place.querySelector(".report").textContent = prompt.report;
      return undefined;
    }
    place.dataset.id = prompt.id;
    const bars = this.field("prompt_bars");
    bars.querySelector("input").value = Math.min(prompt.bars, 4);
    bars.querySelector("input").addEventListener("change", () => this.on.bars());
    place.replaceChildren(
      element("p", {}, element("strong", {}, prompt.name), " ", element("button", { type: "button", onclick: () => { this.showPrompt(null); this.on.forget(); }, "aria-label": "Do not continue this file" }, "✕")),
      element("p", { class: "report" }, prompt.report), bars);
    if (Number(this.length.value) <= Math.min(prompt.bars, 4)) this.length.value = Math.min(prompt.bars, 4) + 8;
    return undefined;
  }
}
