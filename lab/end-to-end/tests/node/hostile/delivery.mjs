// Delivery of lines: only a direct 2xx counts, and redirects are not followed.
import assert from "node:assert/strict";
import http from "node:http";
import { gunzipSync } from "node:zlib";
import forward from "../../../../../infra/edge/azure/forward/index.mjs";
import { Lines } from "../../../../../infra/edge/lines.mjs";

/** Starts a server that responds with `respond` and records its requests. */
async function server(respond) {
  const received = [];
  const server = http.createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const isZipped = request.headers["content-encoding"] === "gzip";
    const body = (isZipped ? gunzipSync(Buffer.concat(parts)) : Buffer.concat(parts)).toString();
    received.push({ key: request.headers["x-api-key"], body: body.trimEnd().split("\n") });
    const [status, headers = {}] = respond(received.length);
    response.writeHead(status, headers).end("{}");
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return { received, url: `http://127.0.0.1:${server.address().port}/`, close: () => server.close() };
}

const silent = { onError: () => {} };

/** After each of these responses, the batch is sent again and delivered. */
async function failures() {
  const elsewhere = await server(() => [200]);
  for (const status of [300, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 409, 410, 413, 415, 418, 429, 500, 502, 503, 504]) {
    const drain = await server((count) => (count === 1 ? [status, { location: elsewhere.url }] : [200]));
    const errors = [];
    const lines = new Lines({ url: drain.url, key: "key-1", onError: (error) => errors.push(error.message) });
    [1, 2].forEach((line) => lines.add(line));
    await lines.flush();
    assert.deepEqual(lines.waiting, ["1", "2"], `status ${status} lost the lines`);
    assert.ok(errors.length === 1 && errors[0].includes(String(status)), errors.join());
    await lines.flush();
    assert.deepEqual(lines.waiting, [], `the lines still wait after ${status}`);
    assert.deepEqual(drain.received.map(({ body }) => body), [["1", "2"], ["1", "2"]], `${status}`);
    drain.close();
  }
  assert.deepEqual(elsewhere.received, [], "a redirect was followed");
  elsewhere.close();
}

async function successes() {
  for (const status of [200, 201, 202, 204]) {
    const drain = await server(() => [status]);
    const lines = new Lines({ url: drain.url, key: "key-1", ...silent });
    lines.add(1);
    await lines.flush();
    assert.deepEqual([lines.waiting, drain.received], [[], [{ key: "key-1", body: ["1"] }]], `${status}`);
    drain.close();
  }
}

/** Lines that the service can't parse are reported once and not sent again. Later lines are sent. */
async function unreadable() {
  const received = [];
  const send = async (_, { body }) => {
    const batch = body.trimEnd().split("\n");
    received.push(batch);
    const status = batch.every((line) => line === '"bad"') ? 422 : 200;
    return { ok: status === 200, status };
  };
  const errors = [];
  const lines = new Lines({ url: "", key: "", send, atOnce: 2, onError: (error) => errors.push(error.message) });
  ["bad", "bad", "good", "good", "good"].forEach((line) => lines.add(line));
  await lines.flush();
  assert.deepEqual(received, [['"bad"', '"bad"'], ['"good"', '"good"'], ['"good"']]);
  assert.ok(errors.length === 1 && errors[0].includes("422"), errors.join());
  assert.deepEqual(lines.waiting, []);
}

/**
 * The Azure Function fails unless the response is a direct 2xx, so that its messages are delivered again. It succeeds after 422, because
 * the service can never parse those messages.
 */
async function azureFunction() {
  const elsewhere = await server(() => [200]);
  const messages = [{ records: [{ properties: { userAgent: '"}]}\n{"records":[' } }] }, "no JSON"];
  for (const status of [200, 202, 204, 300, 301, 302, 303, 307, 308, 400, 401, 403, 404, 413, 422, 429, 500, 502, 503]) {
    const drain = await server(() => [status, { location: elsewhere.url }]);
    Object.assign(process.env, { DRAIN_URL: drain.url, DRAIN_KEY: "key-1" });
    const warnings = [];
    const ran = forward({ log: { warn: (text) => warnings.push(text) } }, messages);
    if (status < 300 || status === 422) await ran;
    else await assert.rejects(ran, new RegExp(`${status}$`));
    assert.equal(warnings.length, status === 422 ? 1 : 0, `${status}`);
    assert.deepEqual(drain.received, [{ key: "key-1", body: [JSON.stringify(messages)] }], `${status}`);
    drain.close();
  }
  assert.deepEqual(elsewhere.received, [], "a redirect was followed");
  elsewhere.close();
  await assert.rejects(forward({}, messages), "accepts messages although no server listens");
}

await azureFunction();
await failures();
await successes();
await unreadable();
