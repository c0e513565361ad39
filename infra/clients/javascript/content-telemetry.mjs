// Client of the Content Telemetry API for Node.js 20 or later, Deno, Bun and edge runtimes. It has no dependencies.
//
// Every event gets an `id`, so repeats count once. A request is retried after `Retry-After`, failed connections and lost responses,
// for at most `giveUpAfterMs`.

const MAX_EVENTS = 1_000;
const MAX_BYTES = 900_000;
const REPEATED = new Set([408, 429, 502, 503, 504]);

/** The service rejected a request. `faults` lists each broken rule, with the event's `index`. */
export class ApiError extends Error {
  constructor(status, problem, retryAfter) {
    super(problem.detail ?? `The service answered ${status}.`);
    this.name = "ApiError";
    this.status = status;
    this.code = problem.code;
    this.faults = problem.errors ?? [];
    this.requestId = problem.request_id;
    this.retryAfter = retryAfter;
  }

  /** Returns the error with the faults of one event. */
  ofEvent(index) {
    const errors = this.faults.filter((fault) => fault.index === index);
    return new ApiError(this.status, { detail: this.message, code: this.code, errors, request_id: this.requestId }, this.retryAfter);
  }
}

export class ContentTelemetry {
  #options;
  #queue = [];
  #timer;
  #sending = Promise.resolve();

  /**
   * `url` serves everything unless `ingestUrl` names another address for events and sessions. With a `signingKey` (`keyId` and
   * `jwk`, as for `signRequest`), every report is signed.
   */
  constructor({ url, ingestUrl = url, apiKey, signingKey, batchSize = 500, flushAfterMs = 1_000, giveUpAfterMs = 60_000, fetch = globalThis.fetch }) {
    const size = Math.min(batchSize, MAX_EVENTS);
    this.#options = { url, ingestUrl, apiKey, signingKey, size, flushAfterMs, giveUpAfterMs, fetch: (...request) => fetch(...request) };
  }

  /**
   * Queues an event. Resolves when it is stored durably, and rejects if it is invalid. Adds an `id` to events without one. After an
   * error, report the same event again; it counts once.
   */
  report(event) {
    return new Promise((resolve, reject) => {
      const text = JSON.stringify(identified(event), wellFormed);
      this.#queue.push({ text, bytes: new TextEncoder().encode(text).length + 1, resolve, reject });
      if (this.#queue.length >= this.#options.size) void this.flush();
      else this.#timer ??= setTimeout(() => void this.flush(), this.#options.flushAfterMs);
    });
  }

  /** Sends queued events. Resolves when each was accepted or rejected. Call it before the process ends. */
  flush() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const waiting = this.#queue.splice(0);
    this.#sending = this.#sending.then(async () => {
      for (const batch of batches(waiting, this.#options.size)) await this.#deliver(batch);
    });
    return this.#sending;
  }

  /** Starts a session and returns its id. */
  async startSession(session = {}) {
    return (await this.#write("/sessions/start", session)).session_id;
  }

  /** Ends a session with an optional outcome. */
  endSession(sessionId, outcome) {
    return this.#write("/sessions/end", { session_id: sessionId, outcome });
  }

  /** Uploads a complete session. Like `report`, it adds missing ids. */
  uploadSession(session) {
    session.session_id ??= crypto.randomUUID();
    return this.#write("/sessions/bulk", { ...session, events: (session.events ?? []).map(identified) });
  }

  /** Creates a click token and returns the link with it. */
  async linkWithToken(sessionId, contentUrl) {
    const { token } = await this.#write("/click-tokens", { session_id: sessionId, content_url: contentUrl }, this.#options.url);
    const link = new URL(contentUrl);
    link.search = [...withoutToken(link), `ctx=${encodeURIComponent(token)}`].join("&");
    return link.href;
  }

  /** Returns the response of any read, e.g. `read("/content-owners/summary", { since: "2026-11-01" })`. */
  read(path, parameters = {}) {
    const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value != null));
    return this.#request(`${this.#options.url}${path}?${query}`, {});
  }

  async #deliver(batch) {
    try {
      await this.#post("/events", `{"events":[${batch.map(({ text }) => text).join()}]}`);
      for (const { resolve } of batch) resolve();
    } catch (error) {
      if (error.status === 413 && batch.length > 1) return this.#deliverHalves(batch);
      const faulty = new Set((error.faults ?? []).map(({ index }) => index));
      const rest = batch.filter((_, index) => !faulty.has(index));
      const isOthersFault = error.status === 422 && rest.length < batch.length;
      for (const [index, { reject }] of batch.entries()) {
        if (!isOthersFault) reject(error);
        else if (faulty.has(index)) reject(error.ofEvent(index));
      }
      if (isOthersFault && rest.length > 0) await this.#deliver(rest);
    }
  }

  async #deliverHalves(batch) {
    const middle = batch.length >> 1;
    await this.#deliver(batch.slice(0, middle));
    await this.#deliver(batch.slice(middle));
  }

  #write(path, body, address) {
    return this.#post(path, JSON.stringify(body), address);
  }

  #post(path, body, address = this.#options.ingestUrl) {
    const headers = { "content-type": "application/json", "idempotency-key": crypto.randomUUID() };
    return this.#request(`${address}${path}`, { method: "POST", headers, body });
  }

  async #request(url, request) {
    const deadline = Date.now() + this.#options.giveUpAfterMs;
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await this.#once(url, request, deadline - Date.now());
      } catch (error) {
        const pause = (error.retryAfter ?? Math.min(2 ** attempt / 4, 10)) * 1_000 * (1 + Math.random() / 10);
        const isForGood = error instanceof ApiError && !REPEATED.has(error.status);
        if (isForGood || Date.now() + pause > deadline) throw error;
        await new Promise((resume) => setTimeout(resume, pause));
      }
    }
  }

  async #once(url, request, patienceMs) {
    const { apiKey, signingKey } = this.#options;
    // Each attempt gets its own signature, because a nonce is accepted once.
    const signature = signingKey && request.body ? await signRequest(signingKey, { ...request, url }) : {};
    const headers = { ...request.headers, ...signature, "x-api-key": apiKey };
    const signal = AbortSignal.timeout(Math.max(1, Math.min(patienceMs, 30_000)));
    const response = await this.#options.fetch(url, { ...request, headers, redirect: "manual", signal });
    // An incomplete response counts as missing, so the request is retried.
    if (response.ok) return response.json();
    throw new ApiError(response.status, await response.json().catch(() => ({})), Number(response.headers.get("retry-after")) || undefined);
  }
}

function identified(event) {
  event.id ??= crypto.randomUUID();
  return event;
}

/** Rejects lone surrogates, as in a string that was truncated within an emoji, because JSON parsers reject them. */
function wellFormed(name, value) {
  if (!name.isWellFormed() || (typeof value === "string" && !value.isWellFormed())) throw new TypeError(`${name} has a lone surrogate`);
  return value;
}

function* batches(waiting, size) {
  let batch = [];
  let bytes = 0;
  for (const entry of waiting) {
    if (batch.length === size || (batch.length > 0 && bytes + entry.bytes > MAX_BYTES)) {
      yield batch;
      [batch, bytes] = [[], 0];
    }
    batch.push(entry);
    bytes += entry.bytes;
  }
  if (batch.length > 0) yield batch;
}

/** Returns the parameters without the token, as written: another spelling can be another page. */
function withoutToken(url) {
  const pairs = url.search ? url.search.slice(1).split("&") : [];
  const isToken = (pair) => new URLSearchParams(`&${pair}`).has("ctx");
  return pairs.filter((pair) => !isToken(pair));
}

/** Returns the event for a visit with a click token, or undefined. `url` is the requested address. */
export function clickOf(url, now = new Date()) {
  const page = new URL(url);
  const token = page.searchParams.get("ctx");
  if (!token?.startsWith("ctx_")) return undefined;
  page.search = withoutToken(page).join("&");
  const data = { engagement_type: "link_click" };
  return { type: "content_engaged", timestamp: now.toISOString(), content_url: page.href, ctx_token: token, data };
}

/**
 * Returns the headers that sign a request (docs/api/signatures.md). `jwk` is the private key that `telemetry sign keygen` writes, and
 * `keyId` its id in your manifest. `headers` has lower-case names, with `content-type` and, if the body is encoded, `content-encoding`.
 */
export async function signRequest({ keyId, jwk }, { method, url, headers, body }, now = Date.now()) {
  const bytes = (text) => (typeof text === "string" ? new TextEncoder().encode(text) : text);
  const base64 = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer)));
  const target = new URL(url);
  target.hash = "";
  const digest = `sha-256=:${base64(await crypto.subtle.digest("SHA-256", bytes(body)))}:`;
  const values = { "@method": method, "@target-uri": target.href, "content-type": headers["content-type"], "content-digest": digest };
  if (headers["content-encoding"]) values["content-encoding"] = headers["content-encoding"];
  const created = Math.floor(now / 1_000);
  const components = Object.keys(values).map((name) => `"${name}"`).join(" ");
  const parameters = `(${components});created=${created};expires=${created + 300};keyid=${JSON.stringify(keyId)};alg="ed25519";nonce="${crypto.randomUUID()}";tag="content-telemetry"`;
  const lines = Object.entries({ ...values, "@signature-params": parameters }).map(([name, value]) => `"${name}": ${value}`);
  const { kty, crv, x, d } = jwk;
  const key = await crypto.subtle.importKey("jwk", { kty, crv, x, d }, "Ed25519", false, ["sign"]);
  const signature = base64(await crypto.subtle.sign("Ed25519", key, bytes(lines.join("\n"))));
  return { "content-digest": digest, "signature-input": `ct=${parameters}`, signature: `ct=:${signature}:` };
}

/**
 * Returns the event in a webhook's raw body. Throws if it is forged or more than five minutes old. Store the `id` of handled events,
 * because a delivery can arrive twice.
 */
export async function verifyWebhook(secret, headers, body, now = Date.now() / 1_000) {
  const [timestamp, signature] = [headers["x-svc-timestamp"], headers["x-svc-signature"]];
  const bytes = (text) => new TextEncoder().encode(text);
  const key = await crypto.subtle.importKey("raw", bytes(secret), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  const claimed = /^[0-9a-f]{64}$/.test(signature ?? "") ? Uint8Array.from(signature.match(/../g), (pair) => parseInt(pair, 16)) : new Uint8Array();
  const signed = new Uint8Array([...bytes(`${timestamp}.`), ...(typeof body === "string" ? bytes(body) : body)]);
  if (!(await crypto.subtle.verify("HMAC", key, claimed, signed))) throw new Error("The signature is invalid.");
  if (!(Math.abs(now - Number(timestamp)) <= 300)) throw new Error("The delivery is too old.");
  return JSON.parse(new TextDecoder().decode(signed.subarray(timestamp.length + 1)));
}
