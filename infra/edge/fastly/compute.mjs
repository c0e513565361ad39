// For Fastly Compute services: reports what agents fetch to POST /drains/ndjson.
//
//   import { SecretStore } from "fastly:secret-store";
//   import { report } from "./compute.mjs";
//   async function handle(event) {
//     const response = await fetch(event.request, { backend: "origin" });
//     const key = async () => (await new SecretStore("telemetry").get("DRAIN_KEY")).plaintext();
//     report(event, response, { url: "https://telemetry.example.com/drains/ndjson", key, backend: "telemetry" });
//     return response;
//   }
//   addEventListener("fetch", (event) => event.respondWith(handle(event)));
//
// `key` is the key of an ndjson drain, or a function that returns it; `backend` is the name of the backend for the
// drain's host. The key is read and the line is sent after the response, so visitors never wait and a missing key never breaks a
// page. A Compute instance handles one request, so each line is a separate request; if agents send many requests, use Fastly's log
// streams (log-format.txt).
import { Lines, edgeLine, mayBeABot, warn } from "../lines.mjs";

export function report(event, response, { url, key, backend, send = (to, request) => fetch(to, { ...request, backend }), onError = warn }) {
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
