// The tree of takes: which was forked from which, with a line for each.

import { element } from "./form.js";

const STATUS = { writing: "writing", waiting: "waiting", stopped: "stopped", failed: "failed" };

const span = ({ first, last }) => first === last ? `bar ${first}` : `bars ${first}–${last}`;

export class Tree {
  // on: { select(id), rename(id, name), keep(id, kept), remove(id) }
  constructor(list, on) {
    this.list = list;
    this.on = on;
    this.takes = new Map();
    this.selected = null;
    this.draws = 0;
  }

  set(take) { this.takes.set(take.id, take); this.draw(); }
  remove(id) { this.takes.delete(id); this.draw(); }
  get(id) { return this.takes.get(id); }

  // Ids from the top to the bottom of the list.
  order() { return [...this.list.querySelectorAll("[data-id]")].map(item => item.dataset.id); }

  select(id) { this.selected = id; this.draw(); }

  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      if (this.list.querySelector("input")) return; // someone is typing a name
      const focused = document.activeElement?.closest?.("[data-id]")?.dataset.id;
      const children = new Map();
      for (const take of this.takes.values()) {
        const parent = this.takes.has(take.parent) ? take.parent : null;
        if (!children.has(parent)) children.set(parent, []);
        children.get(parent).push(take);
      }
      const roots = (children.get(null) ?? []).slice().reverse();
      this.list.replaceChildren(...roots.map(take => this.item(take, children)));
      if (focused) this.list.querySelector(`[data-id="${focused}"] .name`)?.focus({ preventScroll: true });
      document.getElementById("empty").hidden = this.takes.size > 0;
    });
  }

  item(take, children) {
    const isSelected = take.id === this.selected, own = children.get(take.id) ?? [];
    const facts = [`${take.bars} ${take.bars === 1 ? "bar" : "bars"}`, STATUS[take.status], take.score.rank ? `no. ${take.score.rank}` : "",
      take.made === "fill" ? `${span(take.score)} anew` : take.parent ? `from bar ${take.bar + 1}` : take.language];
    const line = element("div", { class: `take ${isSelected ? "selected" : ""} ${take.status}`, "data-id": take.id },
      element("button", { class: "name", "aria-current": isSelected ? "true" : null, title: take.note, onclick: () => this.on.select(take.id), ondblclick: () => this.rename(take) },
        element("span", {}, take.name), element("small", {}, facts.filter(Boolean).join(" · "))),
      element("button", { class: "keep", "aria-pressed": String(take.kept), "aria-label": `Keep ${take.name}`, title: "Keep", onclick: () => this.on.keep(take.id, !take.kept) }, take.kept ? "★" : "☆"),
      element("button", { "aria-label": `Rename ${take.name}`, title: "Rename", onclick: () => this.rename(take) }, "✎"),
      element("button", { "aria-label": `Delete ${take.name}`, title: "Delete", onclick: () => this.on.remove(take.id) }, "✕"));
    return element("li", {}, line,
      ...(own.length ? [element("ul", {}, ...own.map(child => this.item(child, children)))] : []));
  }

  rename(take) {
    const line = this.list.querySelector(`[data-id="${take.id}"]`);
    const input = element("input", { value: take.name, maxlength: 80, "aria-label": "Name" });
    let done = false;
    const end = isKept => {
      if (done) return;
      done = true;
      input.remove();
      this.draw();
      if (isKept && input.value.trim() && input.value !== take.name) this.on.rename(take.id, input.value);
    };
    input.addEventListener("keydown", event => { if (event.key === "Enter") end(true); if (event.key === "Escape") end(false); });
    input.addEventListener("blur", () => end(true));
    line.querySelector(".name").replaceWith(input);
    input.focus();
    input.select();
  }
}
