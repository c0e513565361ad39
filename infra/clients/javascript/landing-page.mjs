// Reports visits that follow an agent's link: a page view with `?ctx=` creates one `content_engaged` event.
// Call `const click = clicks(client, "https://www.example.com")` once, and `click(request)` for each page view with a Node.js request.
// It never delays or breaks the page.

import { clickOf } from "./content-telemetry.mjs";

const MOST_WAITING = 10_000;

/** `origin` is the site's public address; the Host header of a request is not trusted. */
export function clicks(client, origin, onError = (error) => console.error(`failed to report a visit: ${error.message}`)) {
  let waiting = 0;
  return (request) => {
    if (request.method !== "GET") return;
    const [path, query] = request.url.split(/\?(.*)/s);
    const page = new URL(origin);
    page.pathname = path;
    page.search = query ?? "";
    const event = clickOf(page);
    if (!event) return;
    if (waiting === MOST_WAITING) return onError(new Error(`${MOST_WAITING} visits are queued`));
    waiting += 1;
    client.report(event).catch(onError).finally(() => (waiting -= 1));
  };
}
