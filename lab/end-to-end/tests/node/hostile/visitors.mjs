// Requests of visitors with arbitrary headers, and the expected content of their log lines. Strings are "binary": one character
// per byte, as in HTTP.
import assert from "node:assert/strict";

export const BOT = "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)";
export const HOST = "www.example.com";
/** An OpenAI address that visitors forge. */
const FORGED_ADDRESS = "132.196.86.7";
/** The ID of another line. */
const OTHER_ID = "0195f3a0-0000-7000-8000-0000000000ff";
/** Part of cookies and credentials. No line may contain it. */
const SECRET = "private-7f1c";

/** Headers that each visitor sends in addition to its user agent. */
const FORGED = {
  "x-forwarded-for": FORGED_ADDRESS,
  "x-real-ip": FORGED_ADDRESS,
  "true-client-ip": FORGED_ADDRESS,
  "cf-connecting-ip": FORGED_ADDRESS,
  "fastly-client-ip": FORGED_ADDRESS,
  forwarded: `for=${FORGED_ADDRESS};host=victim.example;proto=gopher`,
  "x-forwarded-host": "victim.example",
  "fastly-orig-host": "victim.example",
  "x-forwarded-proto": "gopher",
  "x-request-id": OTHER_ID,
  "cf-ray": OTHER_ID,
  "content-telemetry-id": OTHER_ID,
  "signature-agent": '"https://chatgpt.com"',
  "signature-input": 'sig=("@authority");tag="web-bot-auth"',
  signature: "sig=:AA==:",
  referer: `https://${SECRET}.example/`,
  cookie: `session=${SECRET}`,
  authorization: `Basic ${Buffer.from(`a [b] "c" ${SECRET}:password`).toString("base64")}`,
  "x-api-key": SECRET,
};

/** Values that visitors write into one of these headers. */
const HOSTILE = [
  "",
  "-",
  '"',
  "\\",
  '"}',
  `","client_ip":"${FORGED_ADDRESS}","request_id":"${OTHER_ID}","x":"`,
  `" "${OTHER_ID}" "victim.example" "${OTHER_ID}`,
  "a\tb",
  "%22%0A%5C",
  OTHER_ID,
  `${FORGED_ADDRESS}, 10.0.0.1`,
  ` ${FORGED_ADDRESS} , unix`,
  "[::1]:80",
  "caf\xc3\xa9 \xf0\x9f\x98\x80",
  "\xff\xfe\x80 \xed\xa0\x80",
  '"'.repeat(7_000),
  "\xf0\x9f\x98\x80".repeat(1_700),
  "\xff".repeat(7_000),
];
/** Paths that visitors request. */
const PATHS = [
  '/"',
  "/\\",
  "/%22%0A%5C",
  `/x?","client_ip":"${FORGED_ADDRESS}`,
  "/caf\xc3\xa9",
  "/\xff\xfe",
  `/${"a".repeat(7_000)}`,
  `/${'"'.repeat(7_000)}`,
  `/${"\xff".repeat(7_000)}`,
  `/${"\xf0\x9f\x98\x80".repeat(1_700)}`,
];
/** Values and paths that only some servers accept. */
const TOO_MUCH = { values: ["a\nb", "a\r\n{}\n", "\x01".repeat(1_000), '"'.repeat(10_000)], paths: [`/${'"'.repeat(10_000)}`] };

/** Returns all visitors; with `tooMuch`, also those that no HTTP/1.1 server accepts. */
export function visitors({ tooMuch = false } = {}) {
  const values = tooMuch ? [...HOSTILE, ...TOO_MUCH.values] : HOSTILE;
  const paths = tooMuch ? [...PATHS, ...TOO_MUCH.paths] : PATHS;
  const headers = { ...FORGED, "user-agent": BOT };
  const all = values.flatMap((value) =>
    Object.keys(headers).map((name) => ({
      path: "/page?a=b",
      headers: { ...headers, [name]: name === "user-agent" ? `${BOT} ${value}` : value },
      what: `${name}: ${value.slice(0, 40)}`,
    })),
  );
  const together = values
    .filter((value) => tooMuch || value.length < 500)
    .map((value) => {
      const same = Object.fromEntries(Object.keys(headers).map((name) => [name, name === "user-agent" ? `${BOT} ${value}` : value]));
      return { path: tooMuch ? paths.at(-1) : "/page?a=b", headers: same, what: `all headers: ${value.slice(0, 40)}` };
    });
  return [...all, ...together, ...paths.map((path) => ({ path, headers, what: path.slice(0, 40) }))];
}

const utf8 = (binary) => Buffer.from(binary, "latin1").toString();
const isUtf8 = (binary) => Buffer.from(utf8(binary)).toString("latin1") === binary;

/**
 * Checks the visitors' lines, in order: they contain what the server saw, and no header changes another field. `read` converts a line
 * to an object with the middleware's field names.
 */
export function checkLines(name, sent, lines, expected, read = JSON.parse) {
  assert.equal(lines.length, sent.length, `${name}: lines`);
  const ids = new Set();
  lines.forEach((line, at) => {
    const { what, path, headers } = sent[at];
    const about = `${name}, ${what}`;
    assert.ok(Buffer.byteLength(line) < 64 * 1024, `${about}: the line is longer than the service reads`);
    assert.ok(!line.includes(SECRET), `${about}: a cookie, a referer or a credential is in the line`);
    assert.ok(!line.includes("\n"), `${about}: more than one line`);
    const { timestamp, request_id, user_agent, url, content_telemetry_id, signature_agent, signature_input, signature, bytes, content_type, ...others } = read(line);
    assert.ok(timestamp && bytes !== undefined, about);
    assert.match(request_id, /^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}$/, about);
    assert.ok(request_id !== OTHER_ID && !ids.has(request_id), `${about}: the ID is not the server's`);
    ids.add(request_id);
    assert.deepEqual(others, expected, about);
    checkUserAgent(`${about}: ${user_agent}`, user_agent, headers["user-agent"]);
    checkTelemetryId(`${about}: ${content_telemetry_id}`, content_telemetry_id, headers["content-telemetry-id"]);
    // The combined format does not contain this header.
    if (signature_agent !== undefined) checkSignatureAgent(`${about}: ${signature_agent}`, signature_agent, headers["signature-agent"]);
    for (const text of [signature_input, signature]) assert.ok(text === undefined || (typeof text === "string" && text.length <= 2_048), about);
    checkUrl(`${about}: ${url}`, url, path);
  });
}

/** User agents that are too long or not UTF-8 may be cut or escaped, but not removed. */
function checkUserAgent(about, userAgent, sent) {
  assert.ok(userAgent.startsWith(BOT) && userAgent.length < 4_000, about);
  // Runtimes decode headers as UTF-8 or as one character per byte.
  if (isUtf8(sent) && sent.length <= 512) assert.ok([utf8(sent).trim(), sent.trim()].includes(userAgent.trim()), about);
}

/** Forged values must not become the correlation ID of another line. */
function checkTelemetryId(about, id, sent) {
  if (/^[\w-]{2,64}$/.test(sent)) assert.equal(id, sent, about);
  else assert.ok(id !== OTHER_ID && id.length < 400, about);
}

function checkSignatureAgent(about, agent, sent) {
  if (/^[\x20-\x7e]{2,512}$/.test(sent)) assert.equal(agent, sent.trim(), about);
  else assert.ok(agent.length < 4_000, about);
}

function checkUrl(about, url, sent) {
  assert.ok(url.startsWith("/") && url.length < 40_000, about);
  if (/^[\w/?=&%.-]{1,1000}$/.test(sent)) assert.equal(url, sent, about);
  if (sent === "/caf\xc3\xa9") assert.ok(["/caf\u00e9", "/caf%C3%A9"].includes(url), about);
}
