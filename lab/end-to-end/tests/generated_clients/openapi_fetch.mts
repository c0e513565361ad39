// Uses the types that openapi-typescript generates, with openapi-fetch.

import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { env: Record<string, string> };
const { BASE_URL: baseUrl = "", AGENT_KEY: agent = "", OWNER_KEY: owner = "" } = process.env;
const client = createClient<paths, "application/json">({ baseUrl });
const url = "https://www.example.com/openapi-typescript";
const started = await client.POST("/sessions/start", { body: { privacy_level: "full" }, headers: { "X-API-Key": agent } });
if (!started.data) throw new Error(JSON.stringify(started.error));
const event: components["schemas"]["Event"] = {
    type: "content_cited", timestamp: new Date().toISOString(), content_url: url, session_id: started.data.session_id,
    data: { position: "primary" },
};
const reported = await client.POST("/events", { body: { events: [event] }, headers: { "X-API-Key": agent } });
if (reported.data?.events_created !== 1) throw new Error(JSON.stringify(reported.error));

const isFound = async () => {
    const read = await client.GET("/content-owners/events", { params: { query: { limit: 10 } }, headers: { "X-API-Key": owner } });
    if (!read.data) throw new Error(JSON.stringify(read.error));
    return read.data.items.some((item) => item.content_url === url && item.event_data.position === "primary");
};
for (let tries = 0; !(await isFound()); tries++) {
    if (tries === 100) throw new Error("the event is not in the list");
    await new Promise((resolve) => setTimeout(resolve, 200));
}
