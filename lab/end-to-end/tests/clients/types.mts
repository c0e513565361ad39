// Compiled, never run: correct code must compile, and violations of the types must not.

import { clickOf, ContentTelemetry, verifyWebhook } from "content-telemetry";
import { clicks } from "content-telemetry/landing-page";

const client = new ContentTelemetry({ url: "https://telemetry.example", apiKey: "svc_pk_…" });
const session: string = await client.startSession({ agent_id: "bot", privacy_level: "intent" });
await client.report({ type: "content_cited", timestamp: "2026-11-01T10:00:00Z", session_id: session, data: { position: "primary" } });
await client.endSession(session, { type: "conversion", value_amount: 1, currency: "EUR" });
const click = clickOf("https://www.example.com/?ctx=ctx_1");
if (click) await client.report(click);
const { id }: { id: string } = await verifyWebhook("whsec_…", { "x-svc-timestamp": "1" }, new Uint8Array());
console.log(id);
clicks(client, "https://www.example.com")({ method: "GET", url: "/" });

// @ts-expect-error an event has a type
await client.report({ timestamp: "2026-11-01T10:00:00Z" });
// @ts-expect-error no such role
await client.report({ type: "content_cited", timestamp: "", source_role: "browser" });
// @ts-expect-error no such outcome
await client.endSession(session, { type: "sale" });
