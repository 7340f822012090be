// The page: it joins the form, the roll, the player and the tree.

import { Bars, WINDOW, ask } from "./api.js";
import { Form, element, nothing } from "./form.js";
import { History } from "./history.js";
import { showMixer } from "./mixer.js";
import { Player } from "./player.js";
import { Roll } from "./roll.js";
import { Song } from "./song.js";
import { loadSoundFont } from "./soundfont.js";
import { Tree } from "./tree.js";

const $ = id => document.getElementById(id);
const LEAD = 3; // bars that the radio is ahead of what is heard
const REWRITE = "Write these bars anew, and keep what follows. The takes are ranked by how well it fits.";
const SEES = " The model sees what follows.", BLIND = " The model does not see what follows.";

let current = null; // the take on the roll: { id, song, bars }
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
    await change("rename", id, { name: tree.get(id).name }, { name });
  },
  keep: (id, kept) => change("keep", id, { kept: !kept }, { kept }),
  remove: id => removeTake(id),
});
let form;

function say(text) { $("status").textContent = text; }

async function change(label, id, before, after) {
  const request = body => ["PATCH", `/api/pieces/${id}`, body];
  if (await attempt(() => ask(...request(after)))) history.did(label, [request(before)], [request(after)]);
}

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
  current?.bars.close();
  const song = new Song(take), isBeyond = player.song && player.song.barAt(player.tick) >= take.bars;
  song.isGrowing = true;
  current = { id, song, bars: new Bars(id, {
    bar: bar => { song.addBar(bar); roll.draw(); player.schedule(); showFacts(); },
    end: () => { song.isGrowing = false; roll.draw(); showFacts(); },
  }) };
  asked = 0;
  if (isNew && !take.parent || isBeyond) player.seek(0);
  roll.ghosts = [];
  const selection = roll.selection;
  roll.show(song);
  if (selection?.[1] < take.bars) roll.select(selection);
  if (player.loop && isNew) setLoop(null);
  player.load(song);
  current.bars.more();
  mix(song.tracks);
  tree.select(id);
  localStorage.setItem("take", id);
  showFacts();
}

function showFacts() {
  const take = tree.get(current?.id), song = current?.song;
  const isBusy = take?.status === "writing" || take?.status === "waiting", isEmpty = !take || !song.bars.length;
  $("title").textContent = take?.name ?? "Nothing yet";
  $("stop").hidden = form.apply.hidden = !isBusy;
  $("fork").disabled = isEmpty;
  $("fill").disabled = $("more").disabled = isEmpty || isBusy;
  showDownloads(take, song);
  $("note").textContent = take?.note ?? "";
  if (!take) { $("facts").textContent = ""; return; }
  const length = Math.round(song.seconds(song.end)), tempo = Math.round(song.tempos.at(-1).bpm);
  $("facts").textContent = song.bars.length
    ? `${song.bars.length} ${song.bars.length === 1 ? "bar" : "bars"} · ${clock(length)} · ${tempo} bpm · ${take.model} · seed ${take.seed}` : `${take.model} · seed ${take.seed}`;
  $("fill").title = REWRITE + (form.sees(take.model) ? SEES : BLIND);
  $("from").max = $("to").max = Math.max(song.bars.length, 1);
}

function showDownloads(take, song) {
  const key = take ? `${take.id} ${song.bars.length > 0} ${take.name}` : "";
  if ($("downloads").dataset.key === key) return;
  $("downloads").dataset.key = key;
  const link = (text, address) => element("a", { href: address, download: true }, text);
  const path = `/api/pieces/${take?.id}`;
  $("downloads").replaceChildren(...song?.bars.length ? [
    link("MIDI", `${path}.mid`), link("Sound (WAV)", `${path}.wav`),
    ...song.tracks.length > 1 ? song.tracks.map((track, number) => link(`${track.name} alone (MIDI)`, `${path}.mid?track=${number}`)) : [],
    link("All takes of this tree (ZIP)", `${path}.zip`), link("This tree as a session file", `/api/session?piece=${take.id}`), link("Record (JSON)", `${path}.json`),
  ] : [element("p", {}, "No bar is written yet.")]);
}

const away = id => ["DELETE", `/api/pieces/${id}`], back = id => ["POST", `/api/pieces/${id}/restore`];

async function made(label, ids) {
  history.did(label, ids.map(away), ids.map(back));
  for (const id of ids) {
    const take = await ask("GET", `/api/pieces/${id}`);
    if (!tree.get(id)) tree.set(take); // an event that came meanwhile knows more
  }
}

async function removeTake(id) {
  const isCurrent = current?.id === id, order = tree.order(), next = order[order.indexOf(id) + 1] ?? order[order.indexOf(id) - 1];
  if (!await attempt(() => ask(...away(id)))) return;
  history.did("delete", [back(id)], [away(id)]);
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
  const { seed, draw, grammar, prompt_bars, pedal, grid, prompt_tempo, other, ...rest } = form.settings();
  return rest;
}

async function upload(file) {
  form.complain("");
  say(`Reading ${file.name}…`);
  form.file = file;
  form.how.hidden = false;
  try {
    const prompt = await ask("POST", `/api/prompts?${form.reading({ name: file.name })}`, file);
    form.showPrompt(prompt);
    await showPrompt();
    say("");
  } catch (error) { say(""); form.complain(error.message); }
}

// Show the bars of the file that will be taken: as they were played (outlines), and as the model reads them.
async function showPrompt() {
  if (!form.prompt) return;
  try {
    const query = form.reading({ bars: form.settings().prompt_bars ?? "" });
    const prompt = { ...await ask("GET", `/api/prompts/${form.prompt.id}?${query}`), id: form.prompt.id };
    form.complain("");
    form.showPrompt(prompt);
    current?.bars.close();
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
    mix(song.tracks);
    showFacts();
    $("title").textContent = prompt.name;
    $("facts").textContent = `${prompt.bars} bars are taken · outlines: as it was played`;
    $("note").textContent = prompt.report;
  } catch (error) { form.complain(error.message); }
}

function forget() {
  if (current) return;
  const last = localStorage.getItem("take");
  if (tree.get(last)) select(last); else clear();
}

function clear() {
  player.pause();
  current = player.song = roll.song = null;
  mix([]);
  roll.draw();
  showFacts();
}

// Sound and roll

function mix(tracks) { showMixer($("mixer"), tracks, silent => { player.silence(silent); roll.silent = silent; roll.draw(); }); }

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
    $(id).addEventListener("change", () => { const [first, last] = bars(); $("from").value = first; $("to").value = last; roll.select([first - 1, last - 1]); if (player.loop) setLoop([first - 1, last - 1]); });
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
    if (event.detail) event.target.closest("button")?.blur(); // of a mouse or a finger: then Space plays, and does not press it again
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
    forget,
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
    if (isFirst) showFacts();
    isFirst = false;
    current?.bars.more(); // after a break of the connection
    document.body.dataset.ready = "true";
    say("");
  });
  source.addEventListener("take", event => {
    const take = JSON.parse(event.data), before = tree.get(take.id);
    tree.set(take);
    if (take.id !== current?.id) return;
    if (take.refusal && take.refusal !== before?.refusal) form.complain(take.refusal);
    if (take.error && take.error !== before?.error) say(take.error);
    current.bars.more();
    showFacts();
  });
  source.addEventListener("gone", event => {
    const { id } = JSON.parse(event.data);
    tree.remove(id);
    if (current?.id === id) {
      current.bars.close();
      current = null;
      player.pause();
      const left = [...tree.takes.keys()];
      if (left.length) select(left.at(-1)); else clear();
    }
  });
  source.onerror = () => say("The studio does not answer. Is `musicgen studio` still running?");
  source.onopen = () => say("");
  step();
}

window.studio = { player, roll, tree, history, get current() { return current; } }; // for curious people, and for tests
begin().catch(error => say(error.message));
