// Undo and redo: what was done, as requests. They are kept while the tab is open, also when it is loaded again.

import { ask } from "./api.js";

const MOST = 200, KEY = "history";

export class History {
  constructor(changed) {
    this.changed = changed;
    const { past = [], future = [] } = JSON.parse(sessionStorage.getItem(KEY) ?? "{}");
    this.past = past;
    this.future = future;
    this.last = Promise.resolve(); // one step after the other, however fast the keys are pressed
  }

  // undo, redo: lists of requests, each as [method, address, body].
  did(label, undo, redo) {
    this.past.push({ label, undo, redo });
    this.future = [];
    this.keep();
  }

  undo() { return this.queue(() => this.move("past", "future", "undo")); }
  redo() { return this.queue(() => this.move("future", "past", "redo")); }

  queue(step) {
    const moved = this.last.then(step);
    this.last = moved.catch(() => {});
    return moved;
  }

  async move(from, to, what) {
    const step = this[from].pop();
    if (!step) return;
    try {
      await Promise.all(step[what].map(request => ask(...request)));
      this[to].push(step);
    } finally { this.keep(); }
  }

  keep() {
    this.past = this.past.slice(-MOST);
    try { sessionStorage.setItem(KEY, JSON.stringify({ past: this.past, future: this.future })); } catch { /* it has no room */ }
    this.changed();
  }
}
