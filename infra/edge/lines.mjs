// Collects log lines and posts them to /drains/ndjson in batches. Shared by the edge functions and the Node.js middleware.
//
// A batch is delivered when the drain itself responds with 2xx. After other responses, including redirects, its lines are sent again;
// their request_id makes repeats harmless. The exception is 422, which means that every line is invalid: they are dropped and reported.
// When more than `most` lines are waiting, the oldest are dropped, so that the site doesn't run out of memory.

/** Matches every user agent that may be a bot. The service has its own table and decides. */
export const MAY_BE_A_BOT = /bot|crawl|spider|gpt|claude|anthropic|perplexity|gemini|google(-|other|agent)|meta-|novaact|devin|omgili|webzio|cotoyogi|yandexadditional|-user\b|-agent\b|ai\b|kendra|qbusiness|tabstack|fetcher|autorag|-citations|laion|img2d|lightpanda|buyforme|anomura|modelcontextprotocol|twinagent|aiwebindex|copilotchat|cohere-|imagemind|novellum|semantic-visions|turingos|terra ?cotta|prorata/i;

// Visitors choose these values. Longer ones are truncated, so that no line exceeds the service's limit.
const MAX_HEADER = 2_048;
const MAX_TELEMETRY_ID = 64;
const MAX_URL = 8_192;

/** Reports a failed delivery, so that lines of a drain whose key was revoked aren't lost silently. */
export const warn = (error) => console.warn(`telemetry: ${error.message}`);

/** Returns whether a request may come from a bot: by its user agent, or because it names a signing agent. Others are not reported. */
export const mayBeABot = (header) => Boolean(header("signature-agent")) || MAY_BE_A_BOT.test(header("user-agent") ?? "");

/** Returns the first `most` characters of a text, without half a surrogate pair at the end. */
const cut = (text, most) => (text ?? "").slice(0, most).replace(/[\ud800-\udbff]$/, "");

/** Returns the fields of a line that the visitor chooses. `header` returns the text of a header. */
export function visitorFields(url, header) {
  return {
    url: cut(url, MAX_URL),
    user_agent: cut(header("user-agent"), MAX_HEADER),
    content_telemetry_id: cut(header("content-telemetry-id"), MAX_TELEMETRY_ID),
    signature_agent: cut(header("signature-agent"), MAX_HEADER),
    signature_input: cut(header("signature-input"), MAX_HEADER),
    signature: cut(header("signature"), MAX_HEADER),
  };
}

/**
 * Returns the line of a request to an edge function. `more` contains the fields that only the provider knows. The ID is random, because
 * visitors can send a request ID in a header.
 */
export function edgeLine(request, response, more) {
  const url = new URL(request.url);
  return {
    timestamp: new Date().toISOString(),
    request_id: crypto.randomUUID(),
    host: url.host,
    scheme: url.protocol.slice(0, -1),
    method: request.method,
    ...visitorFields(url.pathname + url.search, (name) => request.headers.get(name)),
    status: response.status,
    bytes: Number(response.headers.get("content-length") ?? 0),
    content_type: response.headers.get("content-type") ?? "",
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

  /** Sends the waiting lines. Resolves when no lines are left, after a failure, or when `longestMs` is over. Runs once at a time. */
  flush() {
    this.sending ??= this.#sendAll().finally(() => (this.sending = null));
    return this.sending;
  }

  async #sendAll() {
    const end = Date.now() + this.longestMs;
    while (this.waiting.length > 0 && Date.now() < end) {
      const { dropped } = this;
      const batch = this.waiting.slice(0, this.atOnce);
      if (!(await this.#post(batch))) return;
      // Lines added meanwhile are behind the batch; lines dropped meanwhile were at its front.
      this.waiting.splice(0, Math.max(batch.length - (this.dropped - dropped), 0));
    }
  }

  /** Sends a batch. Resolves to false if it must be sent again. */

  async #post(batch) {
    try {
      const response = await this.send(this.url, {
        method: "POST",
        headers: { "content-type": "application/x-ndjson", "x-api-key": this.key },
        body: batch.join("\n") + "\n",
        // A redirect would send the key to another address, and its final page could be mistaken for the drain's response.
        redirect: "manual",
        // A request that hangs would block all other lines.
        signal: globalThis.AbortSignal?.timeout?.(10_000),
      });
      if (response.ok) return true;
      this.onError(new Error(`the drain responded with status ${response.status}`));
      // All lines are unreadable. Visitors can cause that, so such lines must not displace others in the queue.
      return response.status === 422;
    } catch (error) {
      this.onError(error);
      return false;
    }
  }
}
