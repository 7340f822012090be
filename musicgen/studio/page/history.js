// Undo and redo: what was done, as pairs of functions.

export class History {
  constructor(changed) {
    this.changed = changed;
    this.past = [];
    this.future = [];
    this.last = Promise.resolve(); // one step after the other, however fast the keys are pressed
  }

  did(label, undo, redo) {
    this.past.push({ label, undo, redo });
    if (this.past.length > 200) this.past.shift();
    this.future = [];
    this.changed();
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
    await step[what]();
    this[to].push(step);
    this.changed();
  }
}
