// A Worker, Fastly Compute and a Node.js server with visitors: agents' fetches are reported to the drain, people's are not.
import http from "node:http";
import worker from "../../../../infra/edge/cloudflare/worker.mjs";
import { report } from "../../../../infra/edge/fastly/compute.mjs";
import { Lines } from "../../../../infra/edge/lines.mjs";
import { contentTelemetry } from "../../../../infra/edge/node/middleware.mjs";

const { DRAIN_URL, DRAIN_KEY } = process.env;
const AGENT = "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)";
// Fetched through each server, here and in Python. Counts as one retrieval.
const SHARED = [["/caf%C3%A9", "0195f3a0-0000-7000-8000-00000000cafe"], ["/c%23", "0195f3a0-0000-7000-8000-0000000000c5"]];
const SIGNED = '"https://chatgpt.com"';
const PERSON = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0";

async function throughTheWorker() {
  const toTheNetwork = globalThis.fetch;
  // The site behind the Worker.
  globalThis.fetch = (input, init) =>
    input instanceof Request
      ? Promise.resolve(new Response("page", { headers: { "content-type": "text/html", "content-length": "4" } }))
      : toTheNetwork(input, init);
  const behind = [];
  const context = { waitUntil: (promise) => behind.push(promise) };
  const visits = [["/worker/1", AGENT], ["/worker/2", AGENT], ["/worker/3", PERSON], ["/worker/4", PERSON, "", SIGNED], ...SHARED.map(([path, id]) => [path, AGENT, id])];
  for (const [path, agent, id = "", signer = ""] of visits) {
    const headers = { "user-agent": agent, "content-telemetry-id": id, "signature-agent": signer };
    const request = new Request(`https://www.example.com${path}`, { headers });
    const response = await worker.fetch(request, { DRAIN_URL, DRAIN_KEY }, context);
    if ((await response.text()) !== "page") throw new Error("the visitor did not receive the page");
  }
  await Promise.all(behind);
  globalThis.fetch = toTheNetwork;
}

async function throughCompute() {
  const behind = [];
  const client = { address: "132.196.86.7", geo: { country_code: "us", as_number: 8075 } };
  const answer = () => new Response("page", { headers: { "content-type": "text/html", "content-length": "4", "x-cache": "HIT" } });
  let tries = 0;
  const visits = [["/compute/1", AGENT], ["/compute/2", PERSON], ["/compute/3", PERSON, "", SIGNED]];
  for (const [path, agent, id = "", signer = ""] of [...visits, ...SHARED.map(([path, id]) => [path, AGENT, id])]) {
    const headers = { "user-agent": agent, "content-telemetry-id": id, "signature-agent": signer };
    const request = new Request(`https://www.example.com${path}`, { headers });
    const send = (url, { backend, ...rest }) => (++tries, fetch(url, rest));
    report({ request, client, waitUntil: (promise) => behind.push(promise) }, answer(), { url: DRAIN_URL, key: DRAIN_KEY, send });
  }
  await Promise.all(behind);
  if (tries !== 4) throw new Error(`${tries} lines were sent instead of the four of agents`);
}

async function throughTheServer() {
  // The first request fails, so the batch is sent again.
  let tries = 0;
  const send = (...request) => (++tries === 1 ? Promise.reject(new Error("the connection failed")) : fetch(...request));
  const telemetry = contentTelemetry({ url: DRAIN_URL, key: DRAIN_KEY, send, everyMs: 20 });
  const server = http.createServer((request, response) => telemetry(request, response, () => response.end("page")));
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const get = (path, agent, id = "", signer = "") =>
    new Promise((done, failed) => {
      const headers = { host: "www.example.com", "user-agent": agent, "content-telemetry-id": id, "signature-agent": signer };
      http.get({ port: server.address().port, path, headers }, (response) => response.resume().on("end", done)).on("error", failed);
    });
  await get("/node/1?a=b", AGENT);
  await get("/node/2", PERSON);
  await get("/node/3", PERSON, "", SIGNED);
  for (const [path, id] of SHARED) await get(path, AGENT, id);
  while (tries < 2) await new Promise((soon) => setTimeout(soon, 10));
  await telemetry.close();
  server.close();
}

/** A response counts even if the visitor closes the connection before its end. */
async function throughAResetConnection() {
  const sent = [];
  const send = async (_, { body }) => {
    sent.push(...body.trim().split("\n"));
    return { ok: true };
  };
  const telemetry = contentTelemetry({ url: DRAIN_URL, key: DRAIN_KEY, send, everyMs: 60_000 });
  const closed = [];
  const server = http.createServer((request, response) =>
    telemetry(request, response, () => {
      closed.push(new Promise((done) => response.once("close", done)));
      response.write("page");
      if (request.url === "/whole") response.end();
    }));
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  for (const path of ["/reset", "/whole"]) {
    const headers = { host: "www.example.com", "user-agent": AGENT };
    await new Promise((done) => {
      const request = http.get({ port: server.address().port, path, headers, agent: false }, (response) =>
        response.once("data", () => (path === "/reset" ? done(request.destroy()) : response.resume().once("end", done))));
      request.on("error", () => {});
    });
  }
  await Promise.all(closed);
  await telemetry.close();
  server.close();
  const paths = sent.map((line) => JSON.parse(line).url);
  if (paths.sort().join() !== "/reset,/whole") throw new Error(`sent ${paths} instead of each path once`);
}

/** After `longestMs`, a flush doesn't start another batch: the next flush sends the second line. */
async function throughALongFlush() {
  const sent = [];
  const send = async (_, { body }) => {
    sent.push(body.trim());
    await new Promise((later) => setTimeout(later, 100));
    return { ok: true };
  };
  const lines = new Lines({ url: DRAIN_URL, key: DRAIN_KEY, send, atOnce: 1, longestMs: 50 });
  [1, 2].forEach((line) => lines.add(line));
  await lines.flush();
  if (sent.join() !== "1") throw new Error(`sent ${sent} instead of the first line`);
  await lines.flush();
  if (sent.join() !== "1,2") throw new Error(`sent ${sent} instead of both lines`);
}

/** Lines that are added to a full queue during a request are sent too. */
async function throughAFullQueue() {
  const sent = [];
  const send = async (_, { body }) => {
    sent.push(...body.trim().split("\n"));
    if (sent.length === 2) [4, 5].forEach((line) => lines.add(line));
    return { ok: true };
  };
  const lines = new Lines({ url: DRAIN_URL, key: DRAIN_KEY, send, atOnce: 2, most: 3 });
  [1, 2, 3].forEach((line) => lines.add(line));
  await lines.flush();
  if (sent.join() !== "1,2,3,4,5") throw new Error(`sent ${sent} instead of all lines`);
}

await throughAResetConnection();
await throughALongFlush();
await throughAFullQueue();
await throughTheWorker();
await throughCompute();
await throughTheServer();
