// The page: it joins the form, the roll, the player and the tree.

import { WINDOW, ask, follow } from "./api.js";
import { Form, element } from "./form.js";
import { History } from "./history.js";
import { Player } from "./player.js";
import { Roll } from "./roll.js";
import { Song } from "./song.js";
import { loadSoundFont } from "./soundfont.js";
import { Tree } from "./tree.js";

const $ = id => document.getElementById(id);
const LEAD = 3; // bars that the radio is ahead of what is heard
const REWRITE = "Write these bars anew, and keep what follows. The takes are ranked by how well it fits.";
const SEES = " The model sees what follows.", BLIND = " The model does not see what follows.";

let current = null; // the take on the roll: { id, song, close }
let asked = 0; // up to which bar the radio may write

const history = new History(() => {
  $("undo").disabled = !history.past.length;
  $("redo").disabled = !history.future.length;
  $("undo").title = history.past.length ? `Undo: ${history.past.at(-1).label} (Ctrl+Z)` : "Nothing to undo";
  $("redo").title = history.future.length ? `Redo: ${history.future.at(-1).label} (Ctrl+Shift+Z)` : "Nothing to redo";
});
const player = new Player(loadSoundFont("/soundfont.sf2"), { state: showState });
const roll = new Roll($("roll"), { seek: tick => { player.seek(tick); roll.setPlayhead(tick); }, select: showSelection });
const tree = new Tree($("tree"), {
  select: id => select(id),
  rename: async (id, name) => {
    const before = tree.get(id).name, change = text => ask("PATCH", `/api/pieces/${id}`, { name: text });
    await attempt(() => change(name)) && history.did("rename", () => change(before), () => change(name));
  },
  keep: (id, kept) => attempt(() => ask("PATCH", `/api/pieces/${id}`, { kept })),
  remove: id => removeTake(id),
});
let form;

function say(text) { $("status").textContent = text; }

async function attempt(work) {
  try { await work(); return true; } catch (error) { say(error.message); return false; }
}

function showState(state) {
  const isOn = player.isOn;
  $("play").setAttribute("aria-label", isOn ? "Pause" : "Play");
  document.body.dataset.player = state;
  if (state === "waiting" && current?.song.bars.length) say("Writing is slower than playing: the music waits for the next bar.");
  else if (state === "waiting") say("Writing the first bar…");
  else if (state === "playing") say("");
}

// Takes

function select(id, isNew = false) {
  const take = tree.get(id);
  if (!take || current?.id === id) return;
  current?.close();
  const song = new Song(take);
  song.isGrowing = true;
  current = { id, song, close: () => {} };
  if (isNew && !take.parent) player.place = 0;
  roll.ghosts = [];
  roll.show(song);
  if (player.loop && isNew) setLoop(null);
  player.load(song);
  current.close = follow(id, {
    bar: bar => { song.addBar(bar); roll.draw(); player.schedule(); showFacts(); },
    refusal: sentence => { if (sentence) form.complain(sentence); },
    done: () => { song.isGrowing = false; roll.draw(); showFacts(); },
    error: sentence => { song.isGrowing = false; say(sentence); },
  });
  showMixer(song.tracks);
  tree.select(id);
  localStorage.setItem("take", id);
  showFacts();
}

function showFacts() {
  const take = tree.get(current?.id), song = current?.song;
  $("title").textContent = take?.name ?? "Nothing yet";
  if (!take) { $("facts").textContent = ""; return; }
  const length = Math.round(song.seconds(song.end)), tempo = Math.round(song.tempos.at(-1).bpm);
  $("facts").textContent = song.bars.length
    ? `${song.bars.length} ${song.bars.length === 1 ? "bar" : "bars"} · ${clock(length)} · ${tempo} bpm · ${take.model} · seed ${take.seed}` : `${take.model} · seed ${take.seed}`;
  $("note").textContent = take.note;
  $("fill").title = REWRITE + (form.sees(take.model) ? SEES : BLIND);
  const isBusy = take.status === "writing" || take.status === "waiting";
  $("stop").hidden = !isBusy;
  form.apply.hidden = !isBusy;
  for (const id of ["fork", "fill", "more"]) $(id).disabled = !song.bars.length;
  $("more").disabled ||= isBusy;
  $("fill").disabled ||= isBusy;
  $("from").max = $("to").max = Math.max(song.bars.length, 1);
  showDownloads(take, song);
}

function showDownloads(take, song) {
  const key = `${take.id} ${song.bars.length > 0} ${take.name}`;
  if ($("downloads").dataset.key === key) return;
  $("downloads").dataset.key = key;
  const link = (text, address) => element("a", { href: address, download: true }, text);
  const path = `/api/pieces/${take.id}`;
  $("downloads").replaceChildren(...song.bars.length ? [
    link("MIDI", `${path}.mid`), link("Sound (WAV)", `${path}.wav`),
    ...song.tracks.length > 1 ? song.tracks.map((track, number) => link(`${track.name} alone (MIDI)`, `${path}.mid?track=${number}`)) : [],
    link("All takes of this tree (ZIP)", `${path}.zip`), link("This tree as a session file", `/api/session?piece=${take.id}`), link("Record (JSON)", `${path}.json`),
  ] : [element("p", {}, "No bar is written yet.")]);
}

async function made(label, ids) {
  history.did(label, () => Promise.all(ids.map(id => ask("DELETE", `/api/pieces/${id}`))), () => Promise.all(ids.map(id => ask("POST", `/api/pieces/${id}/restore`))));
  for (const id of ids) {
    const take = await ask("GET", `/api/pieces/${id}`);
    if (!tree.get(id)) tree.set(take); // an event that came meanwhile knows more
  }
}

async function removeTake(id) {
  const isCurrent = current?.id === id, order = tree.order(), next = order[order.indexOf(id) + 1] ?? order[order.indexOf(id) - 1];
  const done = await attempt(() => ask("DELETE", `/api/pieces/${id}`));
  if (!done) return;
  history.did("delete", () => ask("POST", `/api/pieces/${id}/restore`), () => ask("DELETE", `/api/pieces/${id}`));
  if (isCurrent && next) select(next);
}

// Writing

async function write(values, play = true) {
  const { n = 1, ...rest } = values;
  if (play) player.prepare();
  const { ids } = await ask("POST", "/api/pieces", { ...rest, n });
  await made("write", ids);
  select(ids[0], true);
  if (innerWidth <= 640) $("stage").scrollIntoView({ behavior: "smooth" });
  asked = rest.until ?? 0;
  if (play) { player.pause(); player.place = 0; await player.play(); }
}

async function fork(keys, what = "forks", label = "fork") {
  player.prepare();
  const id = current.id;
  const { ids } = await ask("POST", `/api/pieces/${id}/${what}`, keys);
  await made(label, ids);
  const start = current.song.line(Math.max((keys.bar ?? keys.first - 1) - 1, 0));
  select(ids[0]);
  player.seek(start);
  roll.reveal(start);
  if (!player.isOn) await player.play();
}

function bars() {
  const most = Math.max(current?.song.bars.length ?? 1, 1);
  const first = Math.min(Math.max(Number($("from").value) || 1, 1), most), last = Math.min(Math.max(Number($("to").value) || first, first), most);
  return [first, last];
}

function forkHere() {
  if (!current) return;
  const bar = roll.selection ? bars()[0] - 1 : Math.floor(current.song.barAt(player.tick));
  if (bar < 1) { say("There is nothing before the first bar: move the playhead on, or press Write for a new piece."); return; }
  attempt(() => fork({ bar: Math.min(bar, current.song.bars.length), takes: Number($("count").value), ...changed() }));
}

// The settings that a fork changes: those that the form says.
function changed() {
  const { seed, draw, grammar, prompt_bars, pedal, grid, prompt_tempo, ...rest } = form.settings();
  return rest;
}

async function upload(file) {
  form.complain("");
  say(`Reading ${file.name}…`);
  try {
    const prompt = await ask("POST", `/api/prompts?name=${encodeURIComponent(file.name)}&model=${form.model.value}`, file);
    form.showPrompt(prompt);
    await showPrompt();
    say("");
  } catch (error) { say(""); form.complain(error.message); }
}

// Show the bars of the file that will be taken: as they were played (outlines), and as the model reads them.
async function showPrompt() {
  if (!form.prompt) return;
  const bars = form.settings().prompt_bars ?? "";
  try {
    const prompt = { ...await ask("GET", `/api/prompts/${form.prompt.id}?bars=${bars}&model=${form.model.value}`), id: form.prompt.id };
    form.complain("");
    form.showPrompt(prompt);
    current?.close();
    const song = new Song({ ...prompt, prompt_bars: prompt.bars });
    for (let bar = 0; bar < prompt.bars; bar++) {
      const end = prompt.lines[bar + 1], inside = ([start]) => start >= prompt.lines[bar] && start < end;
      song.addBar({ bar, end, notes: prompt.after.filter(inside), tempos: prompt.tempos.filter(inside), chords: [] });
    }
    current = null;
    roll.ghosts = prompt.before;
    roll.show(song);
    player.load(song);
    player.place = 0;
    tree.select(null);
    showMixer(song.tracks);
    $("title").textContent = prompt.name;
    $("facts").textContent = `${prompt.bars} bars are taken · outlines: as it was played`;
    $("note").textContent = prompt.report;
  } catch (error) { form.complain(error.message); }
}

// Sound and roll

function showMixer(tracks) {
  const states = tracks.map(() => "");
  const update = () => {
    const isSolo = states.includes("solo");
    const silent = new Set(tracks.map((_, number) => number).filter(number => isSolo ? states[number] !== "solo" : states[number] === "mute"));
    player.silence(silent);
    roll.silent = silent;
    roll.draw();
    $("mixer").querySelectorAll("button").forEach(button => button.setAttribute("aria-pressed", String(states[button.dataset.track] === button.dataset.state)));
  };
  const button = (number, state, text) => element("button", {
    "data-track": number, "data-state": state, "aria-pressed": "false", "aria-label": `${state === "mute" ? "Mute" : "Solo"} ${tracks[number].name}`,
    onclick: () => { states[number] = states[number] === state ? "" : state; update(); },
  }, text);
  $("mixer").replaceChildren(...tracks.length > 1 ? tracks.map((track, number) =>
    element("span", { class: `track track-${number % 4}` }, track.name, button(number, "mute", "M"), button(number, "solo", "S"))) : []);
  update();
}

function showSelection(selection) {
  if (!selection) return;
  $("from").value = selection[0] + 1;
  $("to").value = selection[1] + 1;
  if (player.loop) setLoop(selection);
}

function setLoop(selection) {
  const song = player.song;
  player.loop = selection && song ? [song.line(selection[0]), song.line(selection[1] + 1)] : null;
  $("loop").setAttribute("aria-pressed", String(Boolean(player.loop)));
  const isInside = player.loop && player.tick >= player.loop[0] && player.tick < player.loop[1];
  if (song) player.seek(player.loop && !isInside ? player.loop[0] : player.tick); // what is scheduled beyond it is forgotten
}

function toggleLoop() {
  if (player.loop) return setLoop(null);
  const bars = player.song?.bars.length ?? 0;
  return bars && setLoop(roll.selection ?? [0, bars - 1]);
}

function clock(seconds) { return `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`; }

function step() {
  requestAnimationFrame(step);
  const song = player.song;
  if (!song) return;
  const tick = player.tick, bar = Math.min(Math.floor(song.barAt(tick)), Math.max(song.bars.length - 1, 0));
  if (tick !== roll.playhead) roll.setPlayhead(tick, player.state === "playing");
  const text = `bar ${bar + 1} · ${clock(song.seconds(tick))}`;
  if ($("clock").textContent !== text) $("clock").textContent = text;
  const take = tree.get(current?.id);
  if (take?.endless && player.isOn && (take.status === "waiting" || take.status === "writing") && bar + 1 + LEAD > asked) {
    asked = bar + 1 + LEAD;
    attempt(() => ask("PATCH", `/api/pieces/${take.id}`, { until: asked }));
  }
}

async function togglePlay() { if (player.isOn) player.pause(); else await player.play(); }

function moveBars(count) {
  if (!player.song) return;
  const bar = Math.floor(player.song.barAt(player.tick) + (count < 0 ? 0.7 : 0)) + count;
  const tick = player.song.line(Math.min(Math.max(bar, 0), Math.max(player.song.bars.length - 1, 0)));
  player.seek(tick);
  roll.setPlayhead(tick);
  roll.reveal(tick);
}

function neighbour(count) {
  const order = tree.order(), place = order.indexOf(current?.id);
  select(order[Math.min(Math.max(place + count, 0), order.length - 1)]);
}

const KEYS = {
  " ": togglePlay, ArrowLeft: () => moveBars(-1), ArrowRight: () => moveBars(1), ArrowUp: () => neighbour(-1), ArrowDown: () => neighbour(1),
  Home: () => { player.seek(0); roll.setPlayhead(0); roll.reveal(0); }, l: toggleLoop, "+": () => roll.zoom(1.3), "=": () => roll.zoom(1.3), "-": () => roll.zoom(1 / 1.3),
  f: forkHere, Delete: () => current && removeTake(current.id),
};

function listen() {
  document.addEventListener("keydown", event => {
    if (event.target.matches("input, select, textarea")) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if ((event.ctrlKey || event.metaKey) && (key === "z" || key === "y")) {
      event.preventDefault();
      attempt(() => key === "y" || event.shiftKey ? history.redo() : history.undo());
    } else if (!event.ctrlKey && !event.metaKey && !event.altKey && KEYS[key] && !(key === " " && event.target.matches("button, summary, a"))) {
      event.preventDefault();
      KEYS[key]();
    }
  });
  const click = (id, work) => $(id).addEventListener("click", work);
  click("play", togglePlay);
  click("home", KEYS.Home);
  click("loop", toggleLoop);
  click("zoom-in", KEYS["+"]);
  click("zoom-out", KEYS["-"]);
  click("undo", () => attempt(() => history.undo()));
  click("redo", () => attempt(() => history.redo()));
  click("fork", forkHere);
  click("fill", () => { const [first, last] = bars(); attempt(() => fork({ first, last, takes: Number($("count").value) }, "fills", "rewrite")); });
  click("more", () => { const bar = current.song.bars.length; attempt(() => fork({ bar, takes: 1, bars: bar + 8, ...changed() })); });
  click("stop", () => attempt(() => ask("POST", `/api/pieces/${current.id}/stop`)));
  for (const id of ["from", "to"]) {
    $(id).addEventListener("change", () => { const [first, last] = bars(); $("to").value = last; roll.select([first - 1, last - 1]); if (player.loop) setLoop([first - 1, last - 1]); });
  }
  $("open-session").addEventListener("change", event => attempt(async () => {
    const { ids } = await ask("POST", "/api/session", event.target.files[0]);
    event.target.value = "";
    await made("open session", ids);
    select(ids[0]);
  }));
  document.addEventListener("dragover", event => { event.preventDefault(); document.body.classList.add("dragging"); });
  document.addEventListener("dragleave", event => { if (!event.relatedTarget) document.body.classList.remove("dragging"); });
  document.addEventListener("drop", event => {
    event.preventDefault();
    document.body.classList.remove("dragging");
    if (event.dataTransfer.files[0]) upload(event.dataTransfer.files[0]);
  });
  document.addEventListener("click", event => {
    for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
}

async function begin() {
  const [options, models] = await Promise.all([ask("GET", "/api/options"), ask("GET", "/api/models")]);
  form = new Form($("form"), options, models, {
    write: values => write(values),
    radio: ({ bars: _, seconds: __, ...values }) => write({ ...values, endless: true, until: 1 + LEAD }),
    apply: () => ask("PATCH", `/api/pieces/${current.id}`, { ...nothing(), ...changed() }).then(() => say("The settings hold from the next bar that is written.")),
    file: upload,
    bars: showPrompt,
  });
  listen();
  history.changed();
  const source = new EventSource(`/api/events?window=${WINDOW}`);
  let isFirst = true;
  source.addEventListener("takes", event => {
    const takes = JSON.parse(event.data);
    tree.takes = new Map(takes.map(take => [take.id, take]));
    tree.draw();
    const last = localStorage.getItem("take");
    if (isFirst && takes.length) select(tree.get(last) ? last : takes.at(-1).id);
    isFirst = false;
    document.body.dataset.ready = "true";
    say(takes.length ? "" : "Ready.");
  });
  source.addEventListener("take", event => {
    const take = JSON.parse(event.data);
    tree.set(take);
    if (take.id === current?.id) showFacts();
  });
  source.addEventListener("gone", event => {
    const { id } = JSON.parse(event.data);
    tree.remove(id);
    if (current?.id === id) {
      current.close();
      current = null;
      player.pause();
      const left = [...tree.takes.keys()];
      if (left.length) select(left.at(-1)); else { player.song = roll.song = null; roll.draw(); showFacts(); }
    }
  });
  source.onerror = () => say("The studio does not answer. Is `musicgen studio` still running?");
  source.onopen = () => say("");
  step();
}

// What is empty in the form is no wish any more.
function nothing() {
  const wishes = Object.fromEntries(["key", "chords", "tempo", "pitches", "polyphony", "temperature", "top_p", "top_k", "min_p",
    "rhythm_temperature", "rhythm_top_p", "rhythm_min_p", "tracks"].map(key => [key, null]));
  return { ...wishes, ending: "cadence" };
}

window.studio = { player, roll, tree, history, get current() { return current; } }; // for curious people, and for tests
begin().catch(error => say(error.message));
