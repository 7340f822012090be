// Requests to the studio. A refusal becomes an Error with the library's own sentence.

export const WINDOW = Array.from(crypto.getRandomValues(new Uint8Array(8)), byte => byte.toString(16).padStart(2, "0")).join("");

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

// The bars of a piece, until it ends. Returns a function that ends the stream.
export function follow(id, on) {
  const source = new EventSource(`/api/pieces/${id}/events`);
  source.addEventListener("bar", event => on.bar(JSON.parse(event.data)));
  source.addEventListener("refusal", event => on.refusal?.(JSON.parse(event.data).error));
  source.addEventListener("done", event => { source.close(); on.done(JSON.parse(event.data)); });
  source.addEventListener("error", event => {
    if (!event.data) return; // the connection broke; the browser opens it again
    source.close();
    on.error(JSON.parse(event.data).error);
  });
  return () => source.close();
}
