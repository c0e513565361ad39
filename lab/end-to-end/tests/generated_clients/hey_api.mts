// Uses the client that @hey-api/openapi-ts generates.

import { createClient } from "./sdk/client/index.js";
import { listEvents, reportEvents, startSession } from "./sdk/index.js";
import type { Event, EventPage } from "./sdk/index.js";

declare const process: { env: Record<string, string> };
const { BASE_URL: baseUrl = "", AGENT_KEY: agent = "", OWNER_KEY: owner = "" } = process.env;
const as = (key: string) => createClient({ baseUrl, headers: { "X-API-Key": key } });
const url = "https://www.example.com/hey-api";
const started = await startSession({ client: as(agent), body: { privacy_level: "full" } });
if (!started.data) throw new Error(JSON.stringify(started.error));
const event: Event = {
    type: "content_cited", timestamp: new Date().toISOString(), content_url: url, session_id: started.data.session_id,
    data: { position: "primary" },
};
const reported = await reportEvents({ client: as(agent), body: { events: [event] } });
if (reported.data?.events_created !== 1) throw new Error(JSON.stringify(reported.error));

const isFound = async () => {
    const read = await listEvents({ client: as(owner), query: { limit: 10 } });
    if (!read.data) throw new Error(JSON.stringify(read.error));
    const page: EventPage = read.data;
    return page.items.some((item) => item.content_url === url && item.event_data.position === "primary");
};
for (let tries = 0; !(await isFound()); tries++) {
    if (tries === 100) throw new Error("the event is not in the list");
    await new Promise((resolve) => setTimeout(resolve, 200));
}
