// Every format of `infra/edge`, rendered for visitors who forge every header: each line contains what the server saw.
//
// NGINX_PROGRAM is the path of nginx. With PROVIDER, DRAIN_URL and DRAIN_KEY, that provider's lines are also sent to its drain, which
// must parse all of them.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import worker from "../../../../../infra/edge/cloudflare/worker.mjs";
import { report } from "../../../../../infra/edge/fastly/compute.mjs";
import { contentTelemetry } from "../../../../../infra/edge/node/middleware.mjs";
import { evaluate, render } from "./vcl.mjs";
import { BOT, HOST, checkLines, visitors } from "./visitors.mjs";

const { NGINX_PROGRAM, PROVIDER, DRAIN_URL, DRAIN_KEY } = process.env;
const ADDRESS = "203.0.113.9";
const PERSON = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0";
const SIGNED = { "user-agent": PERSON, "signature-agent": '"https://chatgpt.com"' };
const edge = (file) => fileURLToPath(new URL(`../../../../../infra/edge/${file}`, import.meta.url));
const lines = { ndjson: [], fastly: [], combined: [] };

/** Checks lines, and stores them for the drain. */
function take(provider, ...checked) {
  checkLines(...checked);
  lines[provider].push(...checked[2]);
}

/** Visitors whose requests pass through a proxy, which appends the address it sees. */
const throughProxy = () =>
  visitors().map((visitor) => {
    const forwarded = `${visitor.headers["x-forwarded-for"]}, ${ADDRESS}`;
    return { ...visitor, headers: { ...visitor.headers, "x-forwarded-for": forwarded } };
  });

/** Sends a request unchanged, and returns the status of the response. */
function ask(port, { path, headers }) {
  return new Promise((done, failed) => {
    const fields = Object.entries({ host: HOST, ...headers, connection: "close" }).map(([name, value]) => `${name}: ${value}\r\n`);
    const socket = net.connect(port, "127.0.0.1", () => socket.write(`GET ${path} HTTP/1.1\r\n${fields.join("")}\r\n`, "latin1"));
    let answer = "";
    socket.setEncoding("latin1").on("data", (part) => (answer += part));
    socket.on("error", failed).on("close", () => done(Number(answer.split(" ")[1])));
  });
}

/** Sends the requests one after the other. Returns those that the server accepts, which must be nearly all. */
async function served(name, port, all) {
  const served = [];
  for (const visitor of all) if ((await ask(port, visitor)) === 200) served.push(visitor);
  assert.ok(served.length >= all.length - 6, `${name} served ${served.length} of ${all.length}`);
  return served;
}

async function nodeMiddleware() {
  for (const [all, options, address] of [
    [visitors(), {}, "127.0.0.1"],
    [throughProxy(), { trustedProxies: ["127.0.0.0/8", "10.0.0.0/8"] }, ADDRESS],
    [throughProxy(), { trustedProxies: ["10.0.0.0/8"] }, "127.0.0.1"],
  ]) {
    const told = [];
    const send = async (_, { body }) => (told.push(...body.trimEnd().split("\n")), { ok: true });
    const telemetry = contentTelemetry({ url: "", key: "", send, everyMs: 60_000, ...options });
    const server = http.createServer((request, response) => telemetry(request, response, () => response.end("page")));
    await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
    const seen = await served("Node.js", server.address().port, all);
    await telemetry.close();
    server.close();
    take("ndjson", "Node.js", seen, told, { host: HOST, scheme: "http", method: "GET", status: 200, client_ip: address });
  }
}

/** Addresses in the header count only if a trusted proxy added them. */
async function proxyChains() {
  for (const [trustedProxies, forwarded, address] of [
    [["127.0.0.1", "10.0.0.0/8"], `132.196.86.7, ${ADDRESS}, 10.1.2.3`, ADDRESS],
    [["127.0.0.1"], `132.196.86.7, ${ADDRESS}:4711`, ADDRESS],
    [["127.0.0.1"], "132.196.86.7, [2001:db8::1]:443", "2001:db8::1"],
    [["127.0.0.1"], `::ffff:${ADDRESS}`, ADDRESS],
    [["127.0.0.1", "2001:db8::/32"], `${ADDRESS}, 2001:db8::5`, ADDRESS],
    [["127.0.0.1"], "132.196.86.7, unknown", ""],
    [["127.0.0.1", "unix"], "132.196.86.7, unix", ""],
    [["127.0.0.1", "unix"], "132.196.86.7, ", ""],
    [["unix"], "132.196.86.7", "127.0.0.1"],
    [["127.0.0.1"], undefined, ""],
    [[], "132.196.86.7", "127.0.0.1"],
  ]) {
    const told = [];
    const send = async (_, { body }) => (told.push(JSON.parse(body)), { ok: true });
    const site = { host: "own.example", scheme: "https" };
    const telemetry = contentTelemetry({ url: "", key: "", send, everyMs: 60_000, trustedProxies, ...site });
    const server = http.createServer((request, response) => telemetry(request, response, () => response.end("page")));
    await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
    const headers = { "user-agent": BOT, ...(forwarded === undefined ? {} : { "x-forwarded-for": forwarded }) };
    await ask(server.address().port, { path: "http://victim.example/page?a=b", headers });
    await telemetry.close();
    server.close();
    const { client_ip, host, scheme, url } = told[0];
    assert.deepEqual([client_ip, host, scheme, url], [address, "own.example", "https", "/page?a=b"], `${trustedProxies} | ${forwarded}`);
  }
  assert.throws(() => contentTelemetry({ url: "", key: "", trustedProxies: ["localhost"] }));
}

async function cloudflareWorker() {
  const told = [];
  const toTheNetwork = globalThis.fetch;
  globalThis.fetch = async (input, init) => {
    if (input instanceof Request) return new Response("page", { headers: { "content-type": "text/html", "cf-cache-status": "HIT" } });
    told.push(...init.body.trimEnd().split("\n"));
    return new Response("{}");
  };
  const behind = [];
  const all = visitors();
  for (const { path, headers } of all) {
    const request = new Request(`https://${HOST}${Buffer.from(path, "latin1").toString()}`, { headers });
    // Cloudflare replaces the visitor's value with the connection's address.
    request.headers.set("cf-connecting-ip", ADDRESS);
    Object.defineProperty(request, "cf", { value: { country: "DE", asn: 64_500 } });
    await worker.fetch(request, { DRAIN_URL: "https://telemetry.test/", DRAIN_KEY: "key-1" }, { waitUntil: (promise) => behind.push(promise) });
  }
  await Promise.all(behind);
  globalThis.fetch = toTheNetwork;
  const expected = { host: HOST, scheme: "https", method: "GET", status: 200, client_ip: ADDRESS, cache_status: "HIT", country: "DE", asn: 64_500 };
  take("ndjson", "Worker", all, told, expected);
}

async function fastlyCompute() {
  const told = [];
  const behind = [];
  const all = visitors();
  for (const { path, headers } of all) {
    const request = new Request(`https://${HOST}${Buffer.from(path, "latin1").toString()}`, { headers });
    const client = { address: ADDRESS, geo: { country_code: "de", as_number: 64_500 } };
    const send = async (_, { body }) => (told.push(body.trimEnd()), { ok: true });
    report({ request, client, waitUntil: (promise) => behind.push(promise) }, new Response("page"), { url: "", key: "key-1", send });
    await behind.pop();
  }
  const expected = { host: HOST, scheme: "https", method: "GET", status: 200, client_ip: ADDRESS, cache_status: "", country: "de", asn: 64_500 };
  take("ndjson", "Compute", all, told, expected);
}

function fastlyLogFormat() {
  const format = readFileSync(edge("fastly/log-format.txt"), "latin1").trimEnd();
  const condition = readFileSync(edge("fastly/condition.vcl"), "latin1").replace(/^#.*$/gm, "");
  const variable = ({ path, headers }, visits) => (name) => {
    const values = {
      "time.start": new Date(),
      "fastly_info.is_h2": false,
      "fastly_info.state": "HIT-CLUSTER",
      "fastly.ff.visits_this_service": visits,
      "req.is_ssl": true,
      "req.url": path,
      "req.method": "GET",
      "req.http.Host": HOST,
      "resp.status": 200,
      "resp.body_bytes_written": 4,
      "resp.http.Content-Type": "text/html; charset=utf-8",
      "client.ip": ADDRESS,
      "client.geo.country_code": "de",
      "client.as.number": 64_500,
    };
    if (name in values) return values[name];
    // HTTP removes surrounding white space.
    if (name.startsWith("req.http.")) return headers[name.slice("req.http.".length).toLowerCase()]?.replace(/^[ \t]+|[ \t]+$/g, "");
    throw new Error(`the log format reads ${name}`);
  };
  const all = visitors({ tooMuch: true });
  for (const visitor of all) {
    assert.ok(evaluate(condition, variable(visitor, 0)), `${visitor.what} isn't logged`);
    assert.ok(!evaluate(condition, variable(visitor, 1)), `${visitor.what} is logged by a shield`);
  }
  assert.ok(!evaluate(condition, variable({ path: "/", headers: { "user-agent": PERSON } }, 0)), "a person is logged");
  assert.ok(evaluate(condition, variable({ path: "/", headers: SIGNED }, 0)), "a signed agent isn't logged");
  const rendered = all.map((visitor) => Buffer.from(render(format, variable(visitor, 0)), "latin1"));
  for (const line of rendered) {
    assert.ok(line.length < 16 * 1024, "Fastly cuts log lines at 16 KiB");
    assert.ok(Buffer.from(line.toString()).equals(line), "a line is UTF-8");
  }
  const read = (line) => {
    const { request_method: method, request_user_agent: user_agent, response_status: status, response_body_size: bytes, ...same } = JSON.parse(line);
    return { ...same, method, user_agent, status, bytes };
  };
  const expected = { host: HOST, scheme: "https", method: "GET", status: 200, client_ip: ADDRESS, cache_status: "HIT", country: "de", asn: 64_500 };
  take("fastly", "Fastly", all, rendered.map(String), expected, read);
  // A missing header is an empty string.
  const [plain] = [{ path: "/", headers: { "user-agent": BOT } }].map((visitor) => JSON.parse(render(format, variable(visitor, 0))));
  assert.deepEqual([plain.content_telemetry_id, plain.signature_agent, plain.signature_input, plain.signature], ["", "", "", ""]);
}

/** The fields of a line in the combined format, as nginx escapes it. */
function readCombined(line) {
  const text = String.raw`"((?:[^"\\]|\\.)*)"`;
  const format = new RegExp(String.raw`^(\S+) - - \[([^\]]+)\] ${text} (\d+) (\d+) "-" ${text} ${text} ${text} ${text}$`);
  const found = format.exec(line);
  assert.ok(found, `not in the combined format: ${line.slice(0, 300)}`);
  const unescaped = (logged) => Buffer.from(logged.replace(/\\x(..)/g, (_, hex) => String.fromCharCode(parseInt(hex, 16))), "latin1").toString();
  const [, client_ip, timestamp, request, status, bytes, ...quoted] = found;
  const [user_agent, id, host, request_id] = quoted.map(unescaped);
  const [method, url] = unescaped(request).split(" ");
  return { client_ip, timestamp, method, url, status, bytes, user_agent, content_telemetry_id: id === "-" ? "" : id, host, request_id };
}

async function nginx() {
  const folder = mkdtempSync(join(tmpdir(), "nginx-"));
  const [direct, proxied] = await Promise.all([freePort(), freePort()]);
  const server = (port, name, more) => `server { listen 127.0.0.1:${port}; ${more} location / { return 200 page; }
    access_log ${folder}/${name}.json telemetry if=$may_be_a_bot; access_log ${folder}/${name}.log telemetry_combined; }`;
  const realAddress = "set_real_ip_from 127.0.0.0/8; set_real_ip_from 10.0.0.0/8; real_ip_header X-Forwarded-For; real_ip_recursive on;";
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${folder}/${name};`);
  writeFileSync(
    join(folder, "nginx.conf"),
    `daemon off; master_process off; pid ${folder}/pid; error_log stderr; events {}
    http { ${temporary.join(" ")} include ${edge("nginx/json-log.conf")}; include ${edge("nginx/combined-log.conf")};
    ${server(direct, "direct", "")} ${server(proxied, "proxied", realAddress)} }`,
  );
  const program = spawn(NGINX_PROGRAM, ["-e", "stderr", "-p", folder, "-c", join(folder, "nginx.conf")], { stdio: ["ignore", "inherit", "inherit"] });
  const exited = new Promise((done) => program.on("exit", done));
  try {
    await listening(direct, exited);
    for (const [name, port, all, address] of [
      ["direct", direct, visitors(), "127.0.0.1"],
      ["proxied", proxied, throughProxy(), ADDRESS],
    ]) {
      const seen = await served("nginx", port, all);
      await ask(port, { path: "/signed", headers: SIGNED });
      await ask(port, { path: "/person", headers: { "user-agent": PERSON } });
      const everything = (ending) => readFileSync(join(folder, `${name}.${ending}`)).toString().trimEnd().split("\n");
      const logged = (ending) => everything(ending).filter((line) => !/\/(signed|person)\b/.test(line));
      const filtered = everything("json").flatMap((line) => /"url":"\/(signed|person)"/.exec(line)?.[1] ?? []);
      assert.deepEqual(filtered, ["signed"], "a signed agent is logged, and a person isn't");
      const isServed = (line) => line.includes('"status":"200"') || line.includes(' HTTP/1.1" 200 ');
      const same = { host: HOST, method: "GET", status: "200", client_ip: address };
      take("ndjson", "nginx", seen, logged("json").filter(isServed), { ...same, scheme: "http", cache_status: "" });
      take("combined", "nginx, combined", seen, logged("log").filter(isServed), same, readCombined);
    }
  } finally {
    program.kill();
    await exited;
    rmSync(folder, { recursive: true });
  }
}

function freePort() {
  const server = net.createServer();
  return new Promise((done) => server.listen(0, "127.0.0.1", () => {
    const { port } = server.address();
    server.close(() => done(port));
  }));
}

/** Waits until a port is open. Fails if the program exits. */
async function listening(port, exited) {
  let hasExited = false;
  exited.then(() => (hasExited = true));
  const isOpen = () => new Promise((done) => {
    const socket = net.connect(port, "127.0.0.1", () => done(socket.destroy()));
    socket.on("error", () => done(undefined));
  });
  while (!(await isOpen())) {
    if (hasExited) throw new Error("nginx exited before it listened");
    await new Promise((soon) => setTimeout(soon, 20));
  }
}

/** Formats whose lines the provider writes. They request no fields with private data of visitors. */
function namedFields() {
  const list = (file, begin) => readFileSync(edge(file), "utf8").split(begin)[1].split("]")[0].split('"').filter((_, at) => at % 2 === 1);
  const { output_options } = JSON.parse(readFileSync(edge("cloudflare/logpush-job.json"), "utf8"));
  const [{ action_parameters }] = JSON.parse(readFileSync(edge("cloudflare/custom-fields.json"), "utf8")).rules;
  assert.deepEqual(Object.keys(action_parameters), ["request_fields"], "no cookies and no other fields are logged");
  const fields = {
    cloudflare: [...output_options.field_names, ...action_parameters.request_fields.map(({ name }) => name)],
    akamai: list("akamai/datastream.tf", "wanted = ["),
    cloudfront: list("cloudfront/firehose.tf", "record_fields = ["),
  };
  const isPrivate = (field) => /cookie|auth|refer|forwarded|^cs-headers|^cs-header-names|post|body(?!bytes)/i.test(field);
  for (const [provider, names] of Object.entries(fields)) {
    assert.ok(names.length >= 10, `${provider}: ${names}`);
    assert.deepEqual(names.filter(isPrivate), [], provider);
  }
  assert.deepEqual(action_parameters.request_fields.map(({ name }) => name), ["content-telemetry-id", "signature-agent", "signature-input", "signature"]);
}

/** The drain parses every line of its provider. */
async function drain() {
  for (const sent = lines[PROVIDER]; sent.length > 0; ) {
    const batch = sent.splice(0, 500);
    const headers = { "x-api-key": DRAIN_KEY, "content-type": "text/plain" };
    const response = await fetch(DRAIN_URL, { method: "POST", headers, body: batch.join("\n") });
    const counts = await response.json();
    assert.equal(response.status, 200, JSON.stringify(counts));
    assert.deepEqual([counts.lines, counts.kept, counts.bad], [batch.length, batch.length, 0], JSON.stringify(counts));
  }
}

await nodeMiddleware();
await proxyChains();
await cloudflareWorker();
await fastlyCompute();
fastlyLogFormat();
await nginx();
namedFields();
if (PROVIDER) await drain();
