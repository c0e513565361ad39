// A Cloudflare Worker before a site without Logpush: what agents fetch is told to POST /drains/ndjson.
//
// Variables: DRAIN_URL (https://telemetry.example.com/drains/ndjson). Secret: DRAIN_KEY, the key of a drain of the provider ndjson.
// The visitor never waits: lines go out behind the answer, those of one isolate together, a second after the first.
import { Lines, edgeLine, mayBeABot } from "../lines.mjs";

const PAUSE_MS = 1_000;
// What goes on behind an answer is ended after 30 seconds, and a flush that is ended would never be over for those who wait for it:
// with the pause and the last batch, which has 10 seconds, it stays below that.
const LONGEST_MS = 15_000;
let lines;
let flushing;

/** Behind the answer: a second later, everything that came meanwhile. */
function flushSoon() {
  flushing ??= new Promise((done) => setTimeout(done, PAUSE_MS)).then(() => {
    flushing = undefined;
    return lines.flush();
  });
  return flushing;
}

export default {
  async fetch(request, env, context) {
    const response = await fetch(request);
    if (!mayBeABot((name) => request.headers.get(name))) return response;
    lines ??= new Lines({ url: env.DRAIN_URL, key: env.DRAIN_KEY, longestMs: LONGEST_MS });
    lines.add(
      edgeLine(request, response, {
        cache_status: response.headers.get("cf-cache-status") ?? "",
        // The connection's address: Cloudflare overwrites what the visitor sends under this name.
        client_ip: request.headers.get("cf-connecting-ip") ?? "",
        country: request.cf?.country ?? "",
        asn: request.cf?.asn ?? 0,
      }),
    );
    context.waitUntil(flushSoon());
    return response;
  },
};
