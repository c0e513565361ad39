// Runs the Worker in Cloudflare's runtime with concurrent visitors, during an outage of the drain and after it. Agents' fetches
// are reported once, people's are not.
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const { DRAIN_URL, DRAIN_KEY, MODULES } = process.env;
const { Miniflare, Response } = createRequire(`${MODULES}/`)("miniflare");
const AGENT = "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)";
const PERSON = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0";
const edge = fileURLToPath(new URL("../../../../infra/edge", import.meta.url));

let isAway = false;
let taken = [];

/** Handles the Worker's requests to the drain and to the site. */
async function outbound(request) {
  if (request.url !== DRAIN_URL) {
    return new Response("page", { headers: { "content-type": "text/html", "content-length": "4", "cf-cache-status": "HIT" } });
  }
  if (isAway) return new Response("", { status: 503 });
  const body = await request.text();
  const answer = await fetch(DRAIN_URL, { method: "POST", headers: Object.fromEntries(request.headers), body });
  if (!answer.ok) throw new Error(`the service returned ${answer.status}: ${await answer.text()}`);
  taken.push(...body.trimEnd().split("\n").map((line) => JSON.parse(line)));
  return new Response("{}");
}

const miniflare = new Miniflare({
  modules: true,
  modulesRoot: edge,
  modulesRules: [{ type: "ESModule", include: ["**/*.mjs"] }],
  scriptPath: `${edge}/cloudflare/worker.mjs`,
  compatibilityDate: "2026-01-01",
  cf: { country: "DE", asn: 64_500 },
  bindings: { DRAIN_URL, DRAIN_KEY },
  outboundService: outbound,
});

async function visit(path, agent, signer = '"https://agent.test"') {
  const headers = { "user-agent": agent, "cf-ray": `ray-${path}`, "cf-connecting-ip": "132.196.86.7", "signature-agent": signer };
  const response = await miniflare.dispatchFetch(`https://www.example.com${path}`, { headers });
  if ((await response.text()) !== "page") throw new Error("the visitor did not receive the page");
}

async function told(paths) {
  for (let tries = 0; taken.length < paths.length && tries < 1_000; tries++) await new Promise((soon) => setTimeout(soon, 50));
  const urls = taken.map((line) => line.url).sort();
  if (urls.join() !== paths.join()) throw new Error(`reported ${urls} instead of ${paths}`);
}

await Promise.all([visit("/1?a=b", AGENT), visit("/2", AGENT), visit("/person", PERSON, ""), visit("/3", AGENT)]);
await told(["/1?a=b", "/2", "/3"]);
const { asn, country, cache_status, client_ip, request_id, signature_agent } = taken.find((line) => line.url === "/2");
const said = JSON.stringify([asn, country, cache_status, client_ip, signature_agent]);
const expected = JSON.stringify([64_500, "DE", "HIT", "132.196.86.7", '"https://agent.test"']);
if (!/^[0-9a-f-]{36}$/.test(request_id)) throw new Error(`the request ID comes from the visitor: ${request_id}`);
if (said !== expected) throw new Error(`reported ${said} instead of ${expected}`);

// Unsent lines are sent with the next ones.
[isAway, taken] = [true, []];
await visit("/4", AGENT);
await new Promise((later) => setTimeout(later, 1_500));
isAway = false;
await visit("/5", AGENT);
await told(["/4", "/5"]);
await miniflare.dispose();
