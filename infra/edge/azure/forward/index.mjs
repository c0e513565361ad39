// An Azure Function that forwards Front Door's access log from an event hub to POST /drains/azure.
//
// Settings: DRAIN_URL (https://telemetry.example.com/drains/azure) and DRAIN_KEY, the key of an azure drain.
// If the function fails, its messages are delivered again (function.json). A line that is sent twice is counted once.
import { gzipSync } from "node:zlib";

export default async function forward(context, messages) {
  const response = await fetch(process.env.DRAIN_URL, {
    method: "POST",
    headers: { "content-type": "application/json", "content-encoding": "gzip", "x-api-key": process.env.DRAIN_KEY },
    body: gzipSync(JSON.stringify(messages)),
    // A redirect would send the key to another address, and its final page could be mistaken for the drain's response.
    redirect: "manual",
    signal: AbortSignal.timeout(30_000),
  });
  if (response.ok) return;
  const said = `the drain responded with status ${response.status}`;
  // All lines are unreadable. Visitors can cause that, so such messages must not block later ones.
  if (response.status !== 422) throw new Error(said);
  context.log.warn(said);
}
