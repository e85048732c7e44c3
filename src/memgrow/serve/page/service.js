// Requests to the service. What goes wrong becomes an Error whose message is a sentence for the user.

const PATIENCE = 60_000; // milliseconds until a request is given up
let token = "";

export const setToken = (value) => { token = value.trim(); };

export class Refused extends Error {
  constructor(sentence, status) {
    super(sentence);
    this.status = status;
  }
}

export const get = (path) => request(path, { method: "GET" });

export const post = (path, value = {}) =>
  request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) });

/** A form with a file: an upload may take as long as it takes. */
export const upload = (path, form) => request(path, { method: "POST", body: form }, null);

async function request(path, options, patience = PATIENCE) {
  const headers = { Accept: "application/json", ...options.headers };
  if (token && options.method === "POST") headers.Authorization = `Bearer ${latin(token)}`;
  let answer;
  try {
    const signal = patience ? AbortSignal.timeout(patience) : undefined;
    answer = await fetch(path, { ...options, headers, signal, cache: "no-store", credentials: "omit" });
  } catch (error) {
    throw error instanceof Refused ? error : new Refused(error.name === "TimeoutError"
      ? "The service did not answer within a minute; try again."
      : "The service cannot be reached; look whether it is still running.");
  }
  const value = await answer.json().catch(() => null);
  if (answer.ok && value !== null) return value;
  throw new Refused(sentence(value, answer.status), answer.status);
}

/** A header holds Latin letters alone: another token cannot be the right one. */
function latin(value) {
  if (/^[\x21-\x7e]+$/.test(value)) return value;
  throw new Refused("The token has characters that no token of this service has; copy it again.", 401);
}

function sentence(value, status) {
  const detail = value?.detail;
  if (typeof detail === "string") return capital(detail);
  if (Array.isArray(detail)) return detail.map((one) => one?.msg).filter(Boolean).join("; ");
  return `The service answered with status ${status} and no reason.`;
}

/** A sentence as it stands by itself. */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
