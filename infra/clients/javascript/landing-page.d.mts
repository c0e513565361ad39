import type { ContentTelemetry } from "./content-telemetry.mjs";

/** `origin` is the site's public address; the Host header of a request is not trusted. */
export function clicks(
  client: ContentTelemetry,
  origin: string,
  onError?: (error: Error) => void,
): (request: { method?: string; url?: string }) => void;
