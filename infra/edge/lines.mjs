// Collects log lines and posts them to /drains/ndjson in batches. Shared by the edge functions and the Node.js middleware.
//
// A batch is delivered only when the drain itself responds with 2xx. After any other response, redirects included, its lines are kept
// and sent again; their request_id makes a repeat harmless. When more than `most` lines wait, the oldest are dropped, so that a site
// never runs out of memory because of its log.

/** What may be an agent of a machine. Everybody else's requests never leave the server; the service judges by its own table. */
export const MAY_BE_A_BOT = /bot|crawl|spider|gpt|claude|anthropic|perplexity|gemini|google(-|other|agent)|meta-|novaact|devin|omgili|webzio|cotoyogi|yandexadditional|-user\b|-agent\b|ai\b/i;

/** What is not taken is told, or a key that was revoked would lose every line in silence. */
export const warn = (error) => console.warn(`telemetry: ${error.message}`);

export const mayBeABot = (userAgent) => MAY_BE_A_BOT.test(userAgent ?? "");

/** The line of a request that an edge function answers, from the `Request` and the `Response`; `more` is what only its provider knows. */
export function edgeLine(request, response, more) {
  const url = new URL(request.url);
  return {
    timestamp: new Date().toISOString(),
    host: url.host,
    scheme: url.protocol.slice(0, -1),
    url: url.pathname + url.search,
    method: request.method,
    user_agent: request.headers.get("user-agent"),
    status: response.status,
    bytes: Number(response.headers.get("content-length") ?? 0),
    content_type: response.headers.get("content-type") ?? "",
    content_telemetry_id: request.headers.get("content-telemetry-id") ?? "",
    signature_agent: request.headers.get("signature-agent") ?? "",
    ...more,
  };
}

export class Lines {
  /**
   * @param {{url: string, key: string, send?: typeof fetch, atOnce?: number, most?: number, longestMs?: number, onError?: (error: Error) => void}} options
   */
  constructor({ url, key, send = (...request) => fetch(...request), atOnce = 500, most = 10_000, longestMs = Infinity, onError = warn }) {
    Object.assign(this, { url, key, send, atOnce, most, longestMs, onError, waiting: [], dropped: 0, sending: null });
  }

  add(line) {
    this.waiting.push(JSON.stringify(line));
    if (this.waiting.length > this.most) this.dropped += this.waiting.splice(0, this.waiting.length - this.most).length;
  }

  /** Sends the waiting lines. Resolves when none is left, after a failure, or when `longestMs` is over. Runs once at a time. */
  flush() {
    this.sending ??= this.#sendAll().finally(() => (this.sending = null));
    return this.sending;
  }

  async #sendAll() {
    const end = Date.now() + this.longestMs;
    while (this.waiting.length > 0 && Date.now() < end) {
      const { dropped } = this;
      const batch = this.waiting.slice(0, this.atOnce);
      const outcome = await this.#post(batch);
      if (outcome === "failed") return;
      // Lines that came meanwhile are behind the batch; lines that were dropped meanwhile were at its front.
      const first = this.waiting.splice(0, Math.max(batch.length - (this.dropped - dropped), 0));
      if (outcome === "unreadable") {
        // Lines that the service can't read wait behind the others, or they would hold up every later line.
        this.waiting.push(...first);
        return;
      }
    }
  }

  async #post(batch) {
    try {
      const response = await this.send(this.url, {
        method: "POST",
        headers: { "content-type": "application/x-ndjson", "x-api-key": this.key },
        body: batch.join("\n") + "\n",
        // A redirect would send the key to another address, and its final page could pass for the drain's response.
        redirect: "manual",
        // A request that hangs would hold up all other lines.
        signal: globalThis.AbortSignal?.timeout?.(10_000),
      });
      if (response.ok) return "delivered";
      this.onError(new Error(`the drain responded with status ${response.status}`));
      return response.status === 422 ? "unreadable" : "failed";
    } catch (error) {
      this.onError(error);
      return "failed";
    }
  }
}
