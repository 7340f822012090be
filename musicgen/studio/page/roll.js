// The piano roll: a canvas that draws the bars in view, inside a box that scrolls as the browser scrolls.

const HEAD = 40, KEYS = 34, LEAST_BAR = 24, MOST_BAR = 900;

export class Roll {
  // on: { seek(tick), select([first, last]) }, in ticks and in bars counted from 0. Without `select`, dragging does nothing.
  constructor(box, on = {}) {
    this.box = box;
    this.on = on;
    this.song = null;
    this.playhead = 0;
    this.selection = null;
    this.ghosts = [];
    this.silent = new Set();
    this.barWidth = Math.max(Math.min(box.clientWidth / 4.2, 260), 110);
    this.isFollowing = true;
    box.classList.add("roll-box");
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("aria-hidden", "true");
    this.spacer = document.createElement("div");
    this.spacer.className = "spacer";
    box.replaceChildren(this.canvas, this.spacer);
    box.tabIndex = 0;
    box.setAttribute("role", "slider");
    box.setAttribute("aria-label", "Place in the piece");
    box.setAttribute("aria-valuemin", "1");
    box.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    this.listen();
  }

  show(song) {
    this.song = song;
    this.selection = null;
    this.draw();
  }

  setPlayhead(tick, isPlaying) {
    this.playhead = tick;
    const x = this.x(tick), width = this.box.clientWidth;
    if (isPlaying && this.isFollowing && (x > width * 0.85 || x < KEYS)) {
      this.box.scrollLeft += x - KEYS - (width - KEYS) * 0.12;
    }
    this.draw();
  }

  reveal(tick) {
    const x = this.x(tick);
    if (x < KEYS || x > this.box.clientWidth - 20) this.box.scrollLeft += x - this.box.clientWidth / 3;
  }

  zoom(factor) {
    const middle = this.tickAt(this.box.clientWidth / 2);
    this.barWidth = Math.min(Math.max(this.barWidth * factor, LEAST_BAR), MOST_BAR);
    this.resize();
    this.box.scrollLeft += this.x(middle) - this.box.clientWidth / 2;
    this.draw();
  }

  select(bars) {
    this.selection = bars;
    this.draw();
  }

  x(tick) { return KEYS + this.song.barAt(tick) * this.barWidth - this.box.scrollLeft; }
  tickAt(x) { return this.song?.tickOf(Math.max((x - KEYS + this.box.scrollLeft) / this.barWidth, 0)) ?? 0; }

  listen() {
    let start = null, isTouch = false;
    const bar = event => {
      const box = this.canvas.getBoundingClientRect();
      const most = Math.max((this.song?.bars.length ?? 1) - 1, 0);
      return Math.min(Math.floor(this.song.barAt(this.tickAt(event.clientX - box.left))), most);
    };
    this.canvas.addEventListener("pointerdown", event => {
      if (!this.song || event.button) return;
      const box = this.canvas.getBoundingClientRect();
      isTouch = event.pointerType === "touch";
      const isHead = event.clientY - box.top < HEAD;
      start = { bar: bar(event), x: event.clientX, y: event.clientY, mayDrag: Boolean(this.on.select) && (!isTouch || isHead), dragged: false };
      if (start.mayDrag) this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("touchmove", event => { if (start?.mayDrag) event.preventDefault(); }, { passive: false });
    this.canvas.addEventListener("pointermove", event => {
      if (!start?.mayDrag || Math.abs(event.clientX - start.x) < 6 && !start.dragged) return;
      start.dragged = true;
      const other = bar(event);
      this.selection = [Math.min(start.bar, other), Math.max(start.bar, other)];
      this.on.select?.(this.selection);
      this.draw();
    });
    this.canvas.addEventListener("pointerup", event => {
      const from = start;
      start = null;
      if (!from || from.dragged || Math.hypot(event.clientX - from.x, event.clientY - from.y) > 10) return;
      const box = this.canvas.getBoundingClientRect();
      this.on.seek?.(Math.min(this.tickAt(event.clientX - box.left), Math.max(this.song.end - 1, 0)));
    });
    this.canvas.addEventListener("pointercancel", () => { start = null; });
    this.box.addEventListener("wheel", event => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2);
    }, { passive: false });
  }

  resize() {
    const bars = Math.max(this.song?.bars.length ?? 0, 1) + (this.song?.isGrowing ? 1 : 0);
    this.spacer.style.width = `${KEYS + bars * this.barWidth + 24}px`;
  }

  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => { this.frame = 0; this.paint(); });
  }

  paint() {
    const width = this.box.clientWidth, height = this.box.clientHeight, ratio = devicePixelRatio || 1;
    if (!width || !height) return;
    this.resize();
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    const style = getComputedStyle(this.box), colour = name => style.getPropertyValue(name).trim();
    const pen = this.canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = colour("--card");
    pen.fillRect(0, 0, width, height);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    if (!this.song) return;
    const song = this.song, bars = song.bars.length;
    const first = Math.floor(song.barAt(this.tickAt(KEYS)));
    const last = Math.min(Math.ceil(song.barAt(this.tickAt(width))), Math.max(bars, 1));
    const rows = this.rows(height);

    if (song.promptBars) this.band(pen, 0, song.promptBars, HEAD, height, colour("--prompt"));
    for (let pitch = rows.low; pitch <= rows.high; pitch++) {
      if (![1, 3, 6, 8, 10].includes(pitch % 12)) continue;
      pen.fillStyle = colour("--black-keys");
      pen.fillRect(KEYS, rows.y(pitch), width, rows.height);
    }
    if (rows.drumTop < height) {
      pen.fillStyle = colour("--drums");
      pen.fillRect(0, rows.drumTop, width, height - rows.drumTop);
    }
    if (this.selection) this.band(pen, this.selection[0], this.selection[1] + 1, 0, height, colour("--selection"));

    const every = Math.max(Math.ceil(28 / this.barWidth), 1);
    for (let bar = first; bar <= last; bar++) {
      const x = Math.round(this.x(song.line(bar))) + 0.5, beats = (song.line(bar + 1) - song.line(bar)) / song.ticksPerBeat;
      pen.strokeStyle = colour("--bar-line");
      this.line(pen, x, 0, height);
      pen.strokeStyle = colour("--grid");
      for (let beat = 1; beat < beats && this.barWidth > 60; beat++) this.line(pen, Math.round(x + beat * this.barWidth / beats) + 0.5, HEAD, height);
      if (bar < bars && bar % every === 0) {
        pen.fillStyle = colour("--faint");
        pen.fillText(String(bar + 1), x + 5, 11);
      }
    }
    this.ghosts.forEach(note => this.note(pen, rows, note, null, colour("--ghost")));
    const colours = song.tracks.map((_, number) => colour(`--track-${number % 4}`));
    for (let bar = Math.max(first - song.longest, 0); bar <= Math.min(last, bars - 1); bar++) {
      for (const note of song.bars[bar]) this.note(pen, rows, note, colours[note[4]], null);
    }
    if (song.isGrowing) {
      pen.fillStyle = colour("--faint");
      pen.fillText("writing…", this.x(song.end) + 8, HEAD + 14);
    }
    this.drawChords(pen, song, width, colour);
    this.drawKeys(pen, rows, height, colour);
    const x = this.x(this.playhead);
    if (x >= KEYS - 1) {
      pen.fillStyle = colour("--playhead");
      pen.fillRect(x - 1, 0, 2, height);
      pen.beginPath();
      pen.moveTo(x - 6, 0); pen.lineTo(x + 6, 0); pen.lineTo(x, 8);
      pen.fill();
    }
    const at = Math.min(Math.floor(song.barAt(this.playhead)) + 1, Math.max(bars, 1)), chord = song.chordAt(this.playhead);
    this.box.setAttribute("aria-valuemax", String(Math.max(bars, 1)));
    this.box.setAttribute("aria-valuenow", String(at));
    this.box.setAttribute("aria-valuetext", `bar ${at} of ${bars}${chord ? `, ${chord}` : ""}`);
  }

  rows(height) {
    if (this.range?.song !== this.song || this.range.bars !== this.song.bars.length || this.range.ghosts !== this.ghosts) {
      const range = { song: this.song, bars: this.song.bars.length, ghosts: this.ghosts, low: 128, high: 0, drums: new Set() };
      for (const note of [...this.song.bars, this.ghosts].flat()) {
        if (this.song.tracks[note[4]]?.drums) range.drums.add(note[2]);
        else { range.low = Math.min(range.low, note[2]); range.high = Math.max(range.high, note[2]); }
      }
      if (range.low > range.high) [range.low, range.high] = [54, 66];
      const missing = Math.max(26 - (range.high - range.low), 4);
      range.low -= Math.ceil(missing / 2); range.high += Math.floor(missing / 2);
      range.kinds = [...range.drums].sort((a, b) => a - b);
      this.range = range;
    }
    const { low, high, kinds } = this.range;
    const drumTop = kinds.length ? height - Math.min(kinds.length * 11 + 10, height * 0.36) : height;
    const row = (drumTop - HEAD) / (high - low + 1), drumRow = kinds.length ? (height - drumTop - 8) / kinds.length : 0;
    return {
      low, high, drumTop, height: row, drumHeight: drumRow,
      y: pitch => HEAD + (high - pitch) * row,
      drumY: pitch => height - 4 - (kinds.indexOf(pitch) + 1) * drumRow,
    };
  }

  note(pen, rows, [start, end, pitch, velocity, track], fill, stroke) {
    const drums = this.song.tracks[track]?.drums, x = this.x(start), right = this.x(end);
    if (right < KEYS || x > this.box.clientWidth) return;
    const y = drums ? rows.drumY(pitch) : rows.y(pitch), height = Math.max((drums ? rows.drumHeight : rows.height) - 1, 2);
    const wide = drums ? Math.max(Math.min(height * 1.2, 9), 3) : Math.max(right - x - 1, 2);
    pen.beginPath();
    pen.roundRect(x, y + 0.5, wide, height, Math.min(3, height / 2));
    if (fill) {
      pen.globalAlpha = this.silent.has(track) ? 0.15 : 0.45 + 0.55 * velocity / 127;
      pen.fillStyle = fill;
      pen.fill();
      pen.globalAlpha = 1;
    } else {
      pen.strokeStyle = stroke;
      pen.stroke();
    }
  }

  drawChords(pen, song, width, colour) {
    pen.fillStyle = colour("--ink");
    pen.font = "600 13px system-ui, sans-serif";
    let free = KEYS;
    for (const [tick, name] of song.chords) {
      const x = this.x(tick) + 5;
      if (x > width) break;
      if (!name || x < free) continue;
      pen.fillText(name, x, 29);
      free = x + pen.measureText(name).width + 8;
    }
    pen.font = "12px system-ui, sans-serif";
  }

  drawKeys(pen, rows, height, colour) {
    pen.fillStyle = colour("--card");
    pen.fillRect(0, 0, KEYS, height);
    pen.strokeStyle = colour("--line");
    this.line(pen, KEYS - 0.5, 0, height);
    pen.fillStyle = colour("--faint");
    pen.font = "11px system-ui, sans-serif";
    for (let pitch = rows.low; pitch <= rows.high; pitch++) {
      if (pitch % 12 === 0) pen.fillText(`C${pitch / 12 - 1}`, 8, rows.y(pitch) + rows.height / 2);
    }
    pen.font = "10px system-ui, sans-serif";
    if (rows.drumTop < height) pen.fillText("drums", 2, (rows.drumTop + height) / 2);
  }

  band(pen, first, last, top, bottom, fill) {
    pen.fillStyle = fill;
    const x = this.x(this.song.line(first));
    pen.fillRect(x, top, this.x(this.song.line(last)) - x, bottom - top);
  }

  line(pen, x, top, bottom) {
    pen.beginPath();
    pen.moveTo(x, top); pen.lineTo(x, bottom);
    pen.stroke();
  }
}
