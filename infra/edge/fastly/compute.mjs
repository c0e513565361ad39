// For a service of Fastly Compute: what agents fetch through it is told to POST /drains/ndjson.
//
//   import { SecretStore } from "fastly:secret-store";
//   import { tell } from "./compute.mjs";
//   async function handle(event) {
//     const response = await fetch(event.request, { backend: "origin" });
//     const key = async () => (await new SecretStore("telemetry").get("DRAIN_KEY")).plaintext();
//     tell(event, response, { url: "https://telemetry.example.com/drains/ndjson", key, backend: "telemetry" });
//     return response;
//   }
//   addEventListener("fetch", (event) => event.respondWith(handle(event)));
//
// `key` is that of a drain of the provider ndjson, or a function that brings it; `backend` is the name of the service's address in
// the Compute service. The visitor never waits, and a key that is not there costs lines, not the page: both happen behind the
// answer. An instance of Compute lives for one request, so each line is a body of its own; a service with much traffic of agents
// has Fastly's log streams (log-format.txt).
import { Lines, edgeLine, mayBeABot, warn } from "../lines.mjs";

export function tell(event, response, { url, key, backend, send = (to, request) => fetch(to, { ...request, backend }), onError = warn }) {
  const { request, client } = event;
  if (!mayBeABot((name) => request.headers.get(name))) return;
  const line = edgeLine(request, response, {
    cache_status: response.headers.get("x-cache") ?? "",
    client_ip: client?.address ?? "",
    country: client?.geo?.country_code ?? "",
    asn: client?.geo?.as_number ?? 0,
  });
  event.waitUntil(
    (async () => {
      const lines = new Lines({ url, key: typeof key === "function" ? await key() : key, send, onError });
      lines.add(line);
      await lines.flush();
    })().catch(onError),
  );
}
