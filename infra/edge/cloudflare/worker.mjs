// A Cloudflare Worker for sites without Logpush: reports what agents fetch to POST /drains/ndjson.
//
// Variables: DRAIN_URL (https://telemetry.example.com/drains/ndjson). Secret: DRAIN_KEY, the key of an ndjson drain.
// Visitors never wait: each isolate sends its lines after the response, in batches, a second after the first line.
import { Lines, edgeLine, mayBeABot } from "../lines.mjs";

const PAUSE_MS = 1_000;
// Cloudflare cancels work 30 seconds after the response, and a canceled flush would never resolve. The pause, this limit and the
// timeout of the last batch (10 seconds) are less than that in total.
const LONGEST_MS = 15_000;
let lines;
let flushing;

/** Sends all waiting lines a second later. */
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
        // The connection's address. Cloudflare replaces this header if a visitor sends it.
        client_ip: request.headers.get("cf-connecting-ip") ?? "",
        country: request.cf?.country ?? "",
        asn: request.cf?.asn ?? 0,
      }),
    );
    context.waitUntil(flushSoon());
    return response;
  },
};
