// How lines are delivered: only a direct 2xx is a delivery. Nothing is sent to where a redirect points.
import assert from "node:assert/strict";
import http from "node:http";
import { Lines } from "../../../../../infra/edge/lines.mjs";

/** A server that responds as `respond` says and keeps what it was sent. */
async function server(respond) {
  const received = [];
  const server = http.createServer(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    received.push({ key: request.headers["x-api-key"], body: body.trimEnd().split("\n") });
    const [status, headers = {}] = respond(received.length);
    response.writeHead(status, headers).end("{}");
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return { received, url: `http://127.0.0.1:${server.address().port}/`, close: () => server.close() };
}

const silent = { onError: () => {} };

/** After each of these, the batch is sent again and is delivered. */
async function failures() {
  const elsewhere = await server(() => [200]);
  for (const status of [300, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 409, 410, 413, 415, 418, 429, 500, 502, 503, 504]) {
    const drain = await server((count) => (count === 1 ? [status, { location: elsewhere.url }] : [200]));
    const errors = [];
    const lines = new Lines({ url: drain.url, key: "key-1", onError: (error) => errors.push(error.message) });
    [1, 2].forEach((line) => lines.add(line));
    await lines.flush();
    assert.deepEqual(lines.waiting, ["1", "2"], `the lines are lost after ${status}`);
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

/** Lines that the service can't read are reported once and never sent again, and later ones are sent. */
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

await failures();
await successes();
await unreadable();
