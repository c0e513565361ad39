// Types of content-telemetry.mjs. Members that the API keeps beyond these may be added to any of them.

export type SourceRole = "origin" | "edge" | "index" | "agent";
export type PrivacyLevel = "full" | "summary" | "intent" | "minimal";

export interface TelemetryEvent {
  /** Made when absent. The same id counts once. */
  id?: string;
  type: string;
  /** RFC 3339 with an offset. */
  timestamp: string;
  source_role?: SourceRole;
  content_url?: string;
  content_id?: string;
  content_telemetry_id?: string;
  session_id?: string;
  ctx_token?: string;
  turn_id?: string;
  output_id?: string;
  data?: Record<string, unknown>;
  [other: string]: unknown;
}

export interface Outcome {
  type: "conversion" | "abandonment" | "browse";
  /** Minor units of the currency, from 0. */
  value_amount?: number;
  currency?: string;
  [other: string]: unknown;
}

export interface Session {
  session_id?: string;
  initiator_type?: "user" | "agent";
  agent_id?: string;
  manifest_ref?: string;
  content_scope?: string;
  external_session_id?: string;
  prior_session_ids?: string[];
  privacy_level?: PrivacyLevel;
  started_at?: string;
  ended_at?: string;
  [other: string]: unknown;
}

export interface Upload extends Session {
  events?: TelemetryEvent[];
  outcome?: Outcome;
}

export interface Uploaded {
  status: "ok";
  session_id: string;
  events_created: number;
  outcome_recorded: boolean;
}

export interface Fault {
  index?: number;
  field: string;
  code: string;
  detail: string;
}

export class ApiError extends Error {
  readonly status: number;
  readonly code?: string;
  readonly faults: Fault[];
  readonly requestId?: string;
  /** Seconds. */
  readonly retryAfter?: number;
  /** The same refusal with the faults of one event of the request. */
  ofEvent(index: number): ApiError;
}

export interface SigningKey {
  /** The key's id in your manifest, or its RFC 7638 thumbprint. */
  keyId: string;
  /** The private key that `telemetry sign keygen` writes. */
  jwk: { kty: string; crv: string; x: string; d: string };
}

export interface Options {
  url: string;
  ingestUrl?: string;
  apiKey: string;
  /** Signs every report. */
  signingKey?: SigningKey;
  /** Events in one request, at most 1,000. */
  batchSize?: number;
  flushAfterMs?: number;
  giveUpAfterMs?: number;
  fetch?: typeof fetch;
}

export class ContentTelemetry {
  constructor(options: Options);
  report(event: TelemetryEvent): Promise<void>;
  flush(): Promise<void>;
  startSession(session?: Session): Promise<string>;
  endSession(sessionId: string, outcome?: Outcome): Promise<{ status: "ok"; session_id: string }>;
  uploadSession(session: Upload): Promise<Uploaded>;
  linkWithToken(sessionId: string, contentUrl: string): Promise<string>;
  read(path: string, parameters?: Record<string, string | number | null | undefined>): Promise<unknown>;
}

export function clickOf(url: string, now?: Date): TelemetryEvent | undefined;

export interface SignableRequest {
  method: string;
  url: string;
  /** Header names in lower case. */
  headers: Record<string, string>;
  body: string | Uint8Array;
}

/** Returns `content-digest`, `signature-input` and `signature`. */
export function signRequest(key: SigningKey, request: SignableRequest, now?: number): Promise<Record<string, string>>;

export interface WebhookEvent {
  id: string;
  type: string;
  data: Record<string, unknown>;
  [other: string]: unknown;
}

/** Header names in lower case, as Node.js gives them. */
export function verifyWebhook(secret: string, headers: Record<string, string | undefined>, body: string | Uint8Array, now?: number): Promise<WebhookEvent>;
