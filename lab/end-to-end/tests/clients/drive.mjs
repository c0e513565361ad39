// Uses the JavaScript client as an agent and a site would, through a faulty proxy, and prints the expected number of events per
// type and of sessions.
//
// Environment: CLIENT (its folder), PROXY, AGENT_KEY, OWNER_KEY.

import assert from "node:assert/strict";
import { createHmac, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { join } from "node:path";

const { CLIENT, PROXY, AGENT_KEY, OWNER_KEY } = process.env;
const { ApiError, clickOf, ContentTelemetry, verifyWebhook } = await import(join(CLIENT, "content-telemetry.mjs"));
const { clicks } = await import(join(CLIENT, "landing-page.mjs"));

const page = (name) => `https://www.example.com/client/${name}`;
const now = () => new Date().toISOString();
const agent = new ContentTelemetry({ url: PROXY, apiKey: AGENT_KEY });
const session = await agent.startSession({ agent_id: "client-test" });

const retrieved = (n) => ({ type: "content_retrieved", timestamp: now(), session_id: session, source_role: "agent", content_url: page(n) });
const good = Array.from({ length: 1_200 }, (_, n) => agent.report(retrieved(n)));
const bad = [{ timestamp: "yesterday" }, { source_role: "nobody" }].map((fault) => agent.report({ ...retrieved("bad"), ...fault }));
const isRefusedFor = (wrong) => (error) => error instanceof ApiError && error.status === 422 && error.faults.length === 1 && error.faults[0].field.endsWith(wrong);
await assert.rejects(agent.report({ ...retrieved("no JSON"), data: { number: 1n } }), TypeError);
await assert.rejects(agent.report({ ...retrieved("no JSON"), data: { text: "cut in an emoji \ud83d" } }), TypeError);
await Promise.all([...good, assert.rejects(bad[0], isRefusedFor("timestamp")), assert.rejects(bad[1], isRefusedFor("source_role"))]);

const uploaded = await agent.uploadSession({
  agent_id: "client-test", started_at: now(), outcome: { type: "conversion", value_amount: 1_999, currency: "EUR" },
  events: [{ type: "content_cited", timestamp: now(), content_url: page("cited"), data: { citation_type: "paraphrase" } }],
});
assert.equal(uploaded.outcome_recorded, true);

// The query stays unchanged byte for byte, except that a previous token is removed.
const query = "q=a%20b&flag&n=%E9&&s=+&e=&q=%c3%a9";
const link = await agent.linkWithToken(session, page(`landing?ctx=ctx_old&${query}&%63tx=ctx_older#part`));
assert.match(link, /&ctx=ctx_[0-9A-Za-z]+#part$/);
assert.equal(link.replace(/&ctx=ctx_[0-9A-Za-z]+#part$/, ""), page(`landing?${query}`));
assert.equal(clickOf(page(`landing?a=%2F&ctx=ctx_1&${query}`)).content_url, page(`landing?a=%2F&${query}`));
assert.equal(clickOf(page("landing?ctx=ctx_1")).content_url, page("landing"));
const owner = new ContentTelemetry({ url: PROXY, apiKey: OWNER_KEY, flushAfterMs: 1 });
const click = clicks(owner, "https://www.example.com");
const site = createServer((request, response) => response.end("the page", () => click(request))).listen(0, "127.0.0.1");
await new Promise((resume) => site.on("listening", resume));
for (const path of [link.split("#")[0].slice("https://www.example.com".length), "/client/no-token", "//other.example/x?ctx=unlike"]) {
  assert.equal(await (await fetch(`http://127.0.0.1:${site.address().port}${path}`)).text(), "the page");
}
site.close();
await owner.flush();
const errors = [];
const stuck = clicks({ report: () => new Promise(() => {}) }, "https://www.example.com", (error) => errors.push(error.message));
for (let visit = 0; visit <= 10_000; visit += 1) stuck({ method: "GET", url: "/?ctx=ctx_1" });
assert.deepEqual(errors, ["10000 visits are queued"]);
assert.equal(clickOf("https://www.example.com/?ctx=other"), undefined);
assert.equal(clickOf(link.split("#")[0]).content_url, page(`landing?${query}`));
await agent.endSession(session, { type: "browse" });

const refused = new ContentTelemetry({ url: PROXY, apiKey: "svc_pk_unknown" });
await assert.rejects(refused.startSession(), { name: "ApiError", status: 401 });

// An event that is repeated after a failure counts once, even if it was accepted and the response was lost.
const deaf = new ContentTelemetry({ url: PROXY, apiKey: AGENT_KEY, giveUpAfterMs: 300, flushAfterMs: 1, fetch: async (...request) => {
  await fetch(...request);
  throw new Error("the response was lost");
} });
const again = retrieved("again");
await assert.rejects(deaf.report(again));
await agent.report(again);
// A batch that is too large is split, and an event that is too large does not delay others.
const narrow = new ContentTelemetry({ url: PROXY, apiKey: AGENT_KEY, flushAfterMs: 1, fetch: (url, request) =>
  request.body.length > 2_000 ? Promise.resolve(new Response('{"status":413}', { status: 413 })) : fetch(url, request) });
const large = { ...retrieved("large"), data: { text: "x".repeat(2_000) } };
const beside = Array.from({ length: 20 }, (_, n) => narrow.report(retrieved(`beside-${n}`)));
await Promise.all([assert.rejects(narrow.report(large), { name: "ApiError", status: 413 }), ...beside]);

const body = JSON.stringify({ id: randomUUID(), type: "delegation.created", data: { name: "Ünïcode" } });
const signed = (timestamp) => ({ "x-svc-timestamp": `${timestamp}`, "x-svc-signature": createHmac("sha256", "whsec_test").update(`${timestamp}.${body}`).digest("hex") });
const seconds = Math.floor(Date.now() / 1_000);
assert.deepEqual(await verifyWebhook("whsec_test", signed(seconds), body), JSON.parse(body));
assert.deepEqual(await verifyWebhook("whsec_test", signed(seconds), Buffer.from(body)), JSON.parse(body));
await assert.rejects(verifyWebhook("whsec_other", signed(seconds), body), /signature/);
await assert.rejects(verifyWebhook("whsec_test", { ...signed(seconds), "x-svc-signature": undefined }, body), /signature/);
await assert.rejects(verifyWebhook("whsec_test", signed(seconds - 301), body), /too old/);

console.log(JSON.stringify({ counted: { content_retrieved: 1_221, content_cited: 1, content_engaged: 1 }, sessions: 2 }));
