// Runs the npm package `oidc-provider` with one client and a few accounts, and prints its issuer. Its own login and
// consent pages stay as they are: the test walks them as a browser does.
//
// Environment: PACKAGE_DIR (a folder with node_modules), CLIENT_SECRET, REDIRECT_URI, ACCOUNTS (subject -> claims).

import { createServer } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { PACKAGE_DIR, CLIENT_SECRET, REDIRECT_URI, ACCOUNTS } = process.env;
const { default: Provider } = await import(pathToFileURL(join(PACKAGE_DIR, "node_modules/oidc-provider/lib/index.js")));
const accounts = JSON.parse(ACCOUNTS);

const server = createServer();
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const issuer = `http://127.0.0.1:${server.address().port}`;
const provider = new Provider(issuer, {
  clients: [{ client_id: "telemetry", client_secret: CLIENT_SECRET, redirect_uris: [REDIRECT_URI] }],
  claims: { email: ["email", "email_verified"] },
  pkce: { required: () => true },
  cookies: { keys: ["only for this test"] },
  findAccount: (_, subject) => accounts[subject] && { accountId: subject, claims: () => ({ sub: subject, ...accounts[subject] }) },
});
server.on("request", provider.callback());
console.log(issuer);
