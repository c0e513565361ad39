// The setup scripts for providers: no secret is an argument of a command, and only a direct 2xx is a success.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

const edge = (file) => fileURLToPath(new URL(`../../../../../infra/edge/${file}`, import.meta.url));
const TOKEN = "token-7f1c";
const KEY = "svc_pub_7f1c";
const SECRET = 'secret-7f1c "\\';
const SCRIPTS = [
  { script: "cloudflare/logpush.sh", api: "CLOUDFLARE_API", settings: { ZONE_ID: "zone-1" }, secrets: { CLOUDFLARE_API_TOKEN: TOKEN, DRAIN_KEY: KEY }, calls: 3 },
  {
    script: "vercel/drain.sh",
    api: "VERCEL_API",
    settings: { TEAM_ID: "team-1", PROJECT_ID: "project-1" },
    secrets: { VERCEL_TOKEN: TOKEN, DRAIN_KEY: KEY, DRAIN_SECRET: SECRET },
    calls: 1,
  },
];

const folder = mkdtempSync(join(tmpdir(), "scripts-"));

/** Programs that record their arguments before they run, because every account on a machine can list them. */
function watchedPrograms() {
  const bin = join(folder, "bin");
  mkdirSync(bin);
  for (const name of ["curl", "sed", "tr", "cat", "dirname", "awk", "grep", "jq", "printf", "echo", "env", "stty"]) {
    const path = join(bin, name);
    writeFileSync(path, `#!/bin/sh\nprintf '%s\\n' "${name} $*" >> "$ARGUMENTS"\nPATH="$REAL_PATH" exec ${name} "$@"\n`);
    chmodSync(path, 0o755);
  }
  // The Azure CLI reads `@-` from its standard input.
  const az = `printf 'az %s\\n' "$*" >> "$ARGUMENTS"\ncase " $* " in *' @- '*) cat > "$APP_SETTINGS" ;; *' show '*) echo /id-1 ;; esac\nexit "$AZ_STATUS"`;
  for (const [name, text] of [["az", az], ["zip", `printf 'zip %s\\n' "$*" >> "$ARGUMENTS"`]]) {
    writeFileSync(join(bin, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  }
  return bin;
}

/** `azure/setup.sh` sends only the access log, and passes the key to the function's settings through a pipe. */
async function azureSetup(bin) {
  const appSettings = join(folder, "settings.json");
  for (const [input, status] of [[false, 0], [true, 0], [false, 1]]) {
    writeFileSync(appSettings, "");
    const names = { RESOURCE_GROUP: "group-1", LOCATION: "region-1", FRONT_DOOR: "door-1", NAME: "name1" };
    const settings = { ...names, APP_SETTINGS: appSettings, AZ_STATUS: String(status) };
    const script = { script: "azure/setup.sh", api: "NO_API", settings, secrets: { DRAIN_KEY: `${KEY}"` } };
    const { code, stdout, stderr, listed } = await run(script, "", bin, input);
    assert.ok(![listed, stdout, stderr].some((text) => text.includes(KEY)), `${listed}${stdout}${stderr}`);
    assert.equal(stdout, status === 0 ? "done\n" : "", stderr);
    assert.equal(code, status, stderr);
    if (status !== 0) continue;
    const set = Object.fromEntries(JSON.parse(readFileSync(appSettings, "utf8")).map(({ name, value }) => [name, value]));
    const hub = "name1.servicebus.windows.net";
    const expected = { DRAIN_URL: "https://own.example.net/drains/azure", DRAIN_KEY: `${KEY}"`, EVENT_HUB__fullyQualifiedNamespace: hub };
    assert.deepEqual(set, expected);
    const logs = listed.split("\n").filter((line) => line.includes("diagnostic-settings create"));
    assert.ok(logs.length === 1 && logs[0].includes("--resource /id-1") && logs[0].includes('--logs [{"category": "FrontDoorAccessLog", "enabled": true}]'), listed);
  }
}

async function server(status, headers = {}) {
  const received = [];
  const server = http.createServer(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    received.push({ method: request.method, url: request.url, token: request.headers.authorization, body });
    response.writeHead(status, headers).end(`{"said": "${KEY}"}`);
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return { received, url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

/** Runs a script with its secrets in the environment, or as lines on stdin. */
function run({ script, api, settings, secrets }, url, bin, input) {
  const listed = join(folder, "arguments");
  writeFileSync(listed, "");
  const env = { HOME: folder, PATH: bin + delimiter + process.env.PATH, REAL_PATH: process.env.PATH, ARGUMENTS: listed, [api]: url };
  Object.assign(env, settings, { TELEMETRY_URL: "https://own.example.net" }, input ? {} : secrets);
  return new Promise((done) => {
    const child = execFile("sh", [edge(script)], { env }, (error, stdout, stderr) => {
      done({ code: error ? error.code : 0, stdout, stderr, listed: readFileSync(listed, "utf8") });
    });
    child.stdin.on("error", () => {});
    child.stdin.end(input ? Object.values(secrets).map((secret) => `${secret}\n`).join("") : "");
  });
}

try {
  const bin = watchedPrograms();
  // The user's configuration must not change the scripts' behavior.
  writeFileSync(join(folder, ".curlrc"), "location\n");
  for (const script of SCRIPTS) {
    for (const input of [false, true]) {
      const about = `${script.script}, secrets by ${input ? "input" : "environment"}`;
      const api = await server(200);
      const { code, stdout, stderr, listed } = await run(script, api.url, bin, input);
      api.close();
      assert.equal(code, 0, `${about}: ${stderr}`);
      assert.equal(api.received.length, script.calls, about);
      for (const { method, token, body } of api.received) {
        assert.equal(token, `Bearer ${TOKEN}`, about);
        if (method !== "GET") JSON.parse(body);
      }
      const { delivery, destination_conf } = JSON.parse(api.received.at(-1).body);
      if (delivery) {
        assert.deepEqual([delivery.headers, delivery.secret], [{ "X-API-Key": KEY }, SECRET], about);
        assert.equal(delivery.endpoint, "https://own.example.net/drains/vercel");
      } else assert.equal(destination_conf, `https://own.example.net/drains/cloudflare?header_X-API-Key=${KEY}`, about);
      assert.ok(listed.includes("curl "), `${about}: ${listed}`);
      for (const secret of [TOKEN, KEY, "secret-7f1c"]) {
        assert.ok(!listed.includes(secret), `${about}: a secret is an argument: ${listed}`);
        assert.ok(!stdout.includes(secret) && !stderr.includes(secret), `${about}: a secret is shown`);
      }
    }
    // Every status except a direct 2xx is a failure, and redirects are not followed.
    const elsewhere = await server(200);
    for (const status of [301, 302, 307, 308, 400, 403, 500]) {
      const api = await server(status, { location: `${elsewhere.url}/` });
      const { code, stdout } = await run(script, api.url, bin, false);
      api.close();
      assert.ok(code !== 0 && !stdout.includes("done"), `${script.script}: ${status} counts as a success`);
      assert.equal(api.received.length, 1, `${script.script} goes on after ${status}`);
    }
    elsewhere.close();
    assert.deepEqual(elsewhere.received, [], `${script.script} follows redirects`);
    // Without a secret, no request is sent.
    const api = await server(200);
    const { code } = await run({ ...script, secrets: {} }, api.url, bin, true);
    api.close();
    assert.ok(code !== 0 && api.received.length === 0, `${script.script} runs without its secrets`);
  }
  await azureSetup(bin);
} finally {
  rmSync(folder, { recursive: true });
}
