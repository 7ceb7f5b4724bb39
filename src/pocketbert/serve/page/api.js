// Questions to the service. Texts come back as data, and are only ever put into the page as text.

let token = null;

export class Refusal extends Error {
  constructor(status, message, retryAfter) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

export function useToken(value) { token = value; }
export function hasToken() { return token !== null; }

export async function ask(path, body, signal) {
  const headers = {};
  if (token) headers["Authorization"] = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const options = { method: body === undefined ? "GET" : "POST", headers, signal };
  // Half a character, as a paste may leave one, is no text: JSON would carry it, and the service refuse it.
  if (body !== undefined) options.body = JSON.stringify(body, (_, value) => typeof value === "string" ? value.toWellFormed?.() ?? value : value);
  const response = await fetch(path, options);
  if (response.ok) return response;
  let message = `the service answered ${response.status}`;
  try { message = (await response.json()).error ?? message; } catch { /* no JSON: the status says it */ }
  throw new Refusal(response.status, message, Number(response.headers.get("Retry-After")) || 1);
}

// As `ask`, but where too much is waiting, later again.
export async function askPatiently(path, body, signal, tries = 60) {
  for (let tried = 1; ; tried++) {
    try {
      return await (await ask(path, body, signal)).json();
    } catch (error) {
      const passing = error instanceof Refusal && [429, 503, 504].includes(error.status);
      if (!passing || tried >= tries) throw error;
      await new Promise((resolve) => setTimeout(resolve, 1000 * error.retryAfter));
      if (signal?.aborted) throw new DOMException("stopped", "AbortError");
    }
  }
}
