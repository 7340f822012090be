// Requests to the studio. A refusal becomes an Error with the library's own sentence.

// The name of this window. It stays when the page is loaded again, so that its writing goes on.
export const WINDOW = sessionStorage.getItem("window") ?? Array.from(crypto.getRandomValues(new Uint8Array(8)), byte => byte.toString(16).padStart(2, "0")).join("");
sessionStorage.setItem("window", WINDOW);

export async function ask(method, path, body) {
  const isFile = body instanceof Blob;
  const answer = await fetch(path, {
    method,
    headers: { "X-Window": WINDOW, ...(body === undefined || isFile ? {} : { "Content-Type": "application/json" }) },
    body: body === undefined ? undefined : isFile ? body : JSON.stringify(body),
  }).catch(() => { throw new Error("The studio does not answer. Is `musicgen studio` still running?"); });
  const data = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(data.error ?? `the studio answered ${answer.status}`);
  return data;
}

// The bars of a piece, until it ends. `more` asks for new ones. Browsers allow six open connections for all windows,
// so a window has one stream, which tells when there is more, and no second one for the bars.
export class Bars {
  // on: { bar(bar), end() }
  constructor(id, on) {
    this.address = `/api/pieces/${id}/bars`;
    this.on = on;
    this.next = 0;
    this.isOver = this.isAsking = this.isWanted = false;
  }

  close() { this.isOver = true; }

  async more() {
    this.isWanted = true;
    if (this.isAsking) return;
    this.isAsking = true;
    try {
      while (this.isWanted && !this.isOver) {
        this.isWanted = false;
        const { bars, is_last } = await ask("GET", `${this.address}?after=${this.next - 1}`.replace("after=-1", ""));
        if (this.isOver) break;
        for (const bar of bars) this.on.bar(bar);
        this.next += bars.length;
        this.isWanted ||= bars.length > 0 && !is_last;
        if (is_last) { this.isOver = true; this.on.end(); }
      }
    } catch { /* the piece is deleted, or the studio is away: the stream tells */ } finally { this.isAsking = false; }
  }
}
