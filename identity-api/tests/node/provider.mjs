// Runs the npm package `oidc-provider` with one client and a few accounts, and prints its issuer. The test uses its login and
// consent pages as a browser does.
//
// Environment: PACKAGE_DIR (a folder with node_modules), CLIENT_SECRET, REDIRECT_URI, ACCOUNTS (subject -> claims), VARIANT:
// {"auth_method", how the client is registered; "auth_methods", advertised in the metadata; "in_id_token", whether the claims are
// in the ID token; "audiences", additional ones; "azp"}, all optional.

import { createServer } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { PACKAGE_DIR, CLIENT_SECRET, REDIRECT_URI, ACCOUNTS, VARIANT } = process.env;
const { default: Provider } = await import(pathToFileURL(join(PACKAGE_DIR, "node_modules/oidc-provider/lib/index.js")));
const accounts = JSON.parse(ACCOUNTS);
const variant = JSON.parse(VARIANT);

const server = createServer();
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const issuer = `http://127.0.0.1:${server.address().port}`;
const client = { client_id: "telemetry", client_secret: CLIENT_SECRET, redirect_uris: [REDIRECT_URI] };
if (variant.auth_method) client.token_endpoint_auth_method = variant.auth_method;
const provider = new Provider(issuer, {
  clients: [client],
  claims: { email: ["email", "email_verified"] },
  conformIdTokenClaims: !variant.in_id_token,
  ...(variant.auth_methods && { clientAuthMethods: variant.auth_methods }),
  pkce: { required: () => true },
  cookies: { keys: ["only for this test"] },
  findAccount: (_, subject) => accounts[subject] && { accountId: subject, claims: () => ({ sub: subject, ...accounts[subject] }) },
});
if (variant.audiences) {
  // The package signs tokens for one audience, so make what it reads as the client's id a list.
  const issue = provider.IdToken.prototype.issue;
  provider.IdToken.prototype.issue = function (options) {
    const audiences = [this.client.clientId, ...variant.audiences];
    this.client = new Proxy(this.client, {
      get(target, name) {
        const value = Reflect.get(target, name, target);
        return name === "clientId" ? audiences : typeof value === "function" ? value.bind(target) : value;
      },
    });
    if (variant.azp) this.set("azp", variant.azp);
    return issue.call(this, options);
  };
}
// The package accepts the client's secret either way; stricter providers don't.
const isOtherWay = ({ method, url, headers }) =>
  method === "POST" && url === "/token" && variant.auth_method &&
  "authorization" in headers !== (variant.auth_method === "client_secret_basic");
const callback = provider.callback();
server.on("request", (request, response) => {
  if (!isOtherWay(request)) return callback(request, response);
  response.writeHead(401, { "content-type": "application/json" }).end(JSON.stringify({ error: "invalid_client" }));
});
console.log(issuer);
