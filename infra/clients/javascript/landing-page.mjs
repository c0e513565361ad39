// A site's own server tells which visits came by an agent's link: `?ctx=` becomes one `content_engaged` event.
// `const click = clicks(client, "https://www.example.com")` once; `click(request)` for each page view, with a Node.js request. It
// never delays or breaks the page.

import { clickOf } from "./content-telemetry.mjs";

const MOST_WAITING = 10_000;

/** `origin` is the site's public address; a request's own Host header is not trusted. */
export function clicks(client, origin, onError = (error) => console.error(`A click was not reported: ${error.message}`)) {
  let waiting = 0;
  return (request) => {
    if (request.method !== "GET") return;
    const [path, query] = request.url.split(/\?(.*)/s);
    const page = new URL(origin);
    page.pathname = path;
    page.search = query ?? "";
    const event = clickOf(page);
    if (!event) return;
    if (waiting === MOST_WAITING) return onError(new Error(`${MOST_WAITING} of them wait already.`));
    waiting += 1;
    client.report(event).catch(onError).finally(() => (waiting -= 1));
  };
}
