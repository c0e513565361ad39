// Calls the whole API of @openattribution/telemetry against a running service, and prints one line of JSON with what it did. The
// client is unchanged; only `fetch` is observed.
//
// Environment: PACKAGE_DIR (a folder with node_modules), ENDPOINT, API_KEY.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { PACKAGE_DIR, ENDPOINT, API_KEY } = process.env;
const require = createRequire(join(PACKAGE_DIR, "anchor.js"));
const commonjs = require("@openattribution/telemetry");
const esm = await import(pathToFileURL(join(PACKAGE_DIR, "node_modules/@openattribution/telemetry/dist/index.js")));
assert.deepEqual(Object.keys(commonjs).sort(), Object.keys(esm).sort());

const used = new Set();
const api = new Proxy(esm, { get: (module, name) => (used.add(name), module[name]) });

const calls = [];
const realFetch = globalThis.fetch;
globalThis.fetch = async (url, options) => {
  const response = await realFetch(url, options);
  calls.push({ path: new URL(url).pathname, status: response.status, body: await response.clone().text() });
  return response;
};

const site = "https://www.example.com";
const manifestRef = "https://agent.example.net/.well-known/content-telemetry.json";
const at = (seconds) => new Date(Date.now() - 60_000 + seconds * 1_000).toISOString();
const uuid = () => crypto.randomUUID();
const counted = {};
const count = (type, times = 1) => (counted[type] = (counted[type] ?? 0) + times);

/** One event of every type the client knows that has a URL on the owner's site. */
function everyType(prefix) {
  const page = (name) => `${site}/${prefix}/${name}`;
  const turn = {
    privacyLevel: "summary", queryText: "about headphones", responseText: "two models", queryIntent: "comparison",
    responseType: "recommendation", responseMode: "standard", topics: ["audio"], adRendered: false,
    contentUrlsRetrieved: [page("a")], contentUrlsCited: [page("a")], queryTokens: 14, responseTokens: 72, modelId: "m",
  };
  return [
    { id: uuid(), type: "turn_started", timestamp: at(0), turnId: "1", turn },
    {
      id: uuid(), type: "content_retrieved", timestamp: at(1), sourceRole: "agent", contentTelemetryId: uuid(),
      contentUrl: page("a"), contentId: "doi:10.1/a", licenseRef: "licence-1",
      data: { user_agent: "Bot/1.0", bot_category: "inference", verified: true, ip_hash: `sha256:${"0".repeat(64)}` },
    },
    { id: uuid(), type: "content_grounded", timestamp: at(2), contentUrl: page("a"), data: { scope: "turn", cached: false } },
    {
      id: uuid(), type: "content_cited", timestamp: at(3), turnId: "1", contentUrl: page("a"),
      data: { citation_type: "paraphrase", excerpt_tokens: 40, position: "primary", content_hash: `sha256:${"a".repeat(64)}` },
    },
    { type: "content_displayed", timestamp: at(4), contentUrl: page("a"), data: { display_type: "card" } },
    { id: uuid(), type: "content_engaged", timestamp: at(5), contentUrl: page("a"), data: { engagement_type: "link_click" } },
    { id: uuid(), type: "product_viewed", timestamp: at(6), contentUrl: page("a"), productId: uuid() },
    { id: uuid(), type: "turn_completed", timestamp: at(7), turnId: "1", turn },
  ];
}

function countEveryType() {
  for (const type of ["retrieved", "grounded", "cited", "presented", "engaged"]) count(`content_${type}`);
  count("product_viewed");
}

async function plainClient() {
  const client = new api.TelemetryClient({
    endpoint: `${ENDPOINT}/`, apiKey: API_KEY, failSilently: false, timeout: 20_000, maxRetries: 0,
  });
  const bare = await client.startSession();
  const session = await client.startSession({
    contentScope: "npm-client", agentId: "npm-agent", externalSessionId: "conv-1", manifestRef, priorSessionIds: [bare],
    initiatorType: "agent", initiator: { agentId: "caller", manifestRef, operatorId: "operator" },
    userContext: { externalId: "u", segments: ["s"], attributes: { a: 1 } },
  });
  await client.recordEvents(session, everyType("batch"));
  countEveryType();
  await client.recordEvents(session, []);
  await client.recordEvents(null, everyType("nobody"));
  for (const type of ["product_compared", "cart_add", "cart_remove", "checkout_started", "checkout_completed", "checkout_abandoned"]) {
    await client.recordEvent(session, type, { productId: uuid(), sourceRole: "agent", data: { note: type } });
  }
  await client.recordEvent(session, "content_retrieved", { contentUrl: `${site}/single`, contentTelemetryId: uuid() });
  count("content_retrieved");
  const outcome = { type: "conversion", valueAmount: 4999, currency: "USD", products: [uuid()], metadata: { order: "1" } };
  await client.endSession(session, outcome);
  await client.endSession(session, outcome);
  await client.endSession(bare, { type: "browse" });
  return [session];
}

async function stampingClient() {
  const client = new api.TelemetryClient({ endpoint: ENDPOINT, apiKey: API_KEY, failSilently: false, maxRetries: 0, defaultSourceRole: "agent" });
  const session = await client.startSession({ contentScope: "stamped" });
  await client.recordEvents(session, [{ type: "content_cited", timestamp: at(1), contentUrl: `${site}/stamped` }]);
  count("content_cited");
  await client.endSession(session, { type: "abandonment" });
  return [session];
}

async function wholeSession() {
  const client = new api.TelemetryClient({ endpoint: ENDPOINT, apiKey: API_KEY, failSilently: false, maxRetries: 0 });
  const session = {
    sessionId: uuid(), conformanceLevel: "citation", initiatorType: "user", agentId: "npm-agent", contentScope: "bulk", manifestRef,
    priorSessionIds: [], startedAt: at(0), endedAt: at(8), userContext: {}, events: everyType("bulk"),
    outcome: { type: "conversion", valueAmount: 100, currency: "EUR" },
  };
  assert.equal(await client.uploadSession(session), session.sessionId);
  assert.equal(await client.uploadSession(session), session.sessionId, "a repeat of the upload");
  countEveryType();
  const minimal = { sessionId: uuid(), startedAt: at(0), events: [] };
  assert.equal(await client.uploadSession(minimal), minimal.sessionId);

  assert.deepEqual(api.sessionToContentAttribution(session).content_retrieved.length, 1);
  assert.deepEqual(api.sessionToAttribution(session).content_cited.length, 1);
  return [session.sessionId];
}

async function tracker() {
  const client = new api.TelemetryClient({ endpoint: ENDPOINT, apiKey: API_KEY, failSilently: false, maxRetries: 0 });
  const tracker = new api.MCPSessionTracker(client, "npm-tracker");
  const bought = await tracker.getOrCreateSession("bought");
  const results = [{ url: `${site}/t1` }, { link: `${site}/t2` }, { url: null }];
  await tracker.trackRetrieved("bought", api.extractResultUrls(results));
  count("content_retrieved", 2);
  const text = `See [one](${site}/t1) and ${site}/t2.`;
  await tracker.trackCited("bought", api.extractCitationUrls(text), { citationType: "reference", position: "supporting" });
  count("content_cited", 2);
  await tracker.trackCited("bought", api.extractIndexedCitations("As announced [1].", [`${site}/t1`]));
  count("content_cited");
  await tracker.trackEngaged("bought", [`${site}/t1`], { engagementType: "link_click" });
  await tracker.trackEngaged("bought", [`${site}/t1`]);
  count("content_engaged", 2);
  await tracker.trackCheckout("bought", { type: "started" });
  await tracker.trackCheckout("bought", { type: "completed", valueAmount: 4999, currency: "USD", products: [uuid()] });

  await tracker.trackRetrieved("left", [`${site}/t3`]);
  count("content_retrieved");
  const left = await tracker.getOrCreateSession("left");
  await tracker.trackCheckout("left", { type: "abandoned" });
  await tracker.trackRetrieved("looked", [`${site}/t4`]);
  count("content_retrieved");
  const looked = await tracker.getOrCreateSession("looked");
  assert.equal(tracker.sessionCount, 1);
  await tracker.endSession("looked", { type: "browse", valueAmount: 0, currency: "USD" });
  assert.equal(tracker.sessionCount, 0);
  await tracker.trackRetrieved(undefined, [`${site}/t5`]);
  count("content_retrieved");
  assert.match(api.createTrackingUrl(`${site}/t1`, { endpoint: `${ENDPOINT}/track`, sessionId: "bought" }), /session_id=bought/);
  // The anonymous call creates one more session, whose id is not returned.
  return [bought, left, looked, "anonymous"];
}

async function wrongKey() {
  const silent = new api.TelemetryClient({ endpoint: ENDPOINT, apiKey: "svc_pk_wrong", maxRetries: 0 });
  assert.equal(await silent.startSession(), null);
  const loud = new api.TelemetryClient({ endpoint: ENDPOINT, apiKey: "svc_pk_wrong", failSilently: false, maxRetries: 0 });
  await assert.rejects(() => loud.startSession(), /HTTP 401/);
}

const sessions = [...(await plainClient()), ...(await stampingClient()), ...(await wholeSession()), ...(await tracker())];
for (const call of calls) {
  assert.ok(call.status === 200 || call.status === 201, `${call.path} answered ${call.status}: ${call.body}`);
}
const answered = calls.length;
await wrongKey();
assert.deepEqual([...used].sort(), Object.keys(esm).sort(), "every export was used");
console.log(JSON.stringify({ counted, sessions: sessions.length, calls: answered }));
