// For Express, Connect and plain node:http: what agents fetch from this server is told to POST /drains/ndjson.
//
//   const telemetry = contentTelemetry({ url: "https://telemetry.example.com/drains/ndjson", key: process.env.DRAIN_KEY });
//   app.use(telemetry);                       // before the routes
//   process.on("SIGTERM", () => telemetry.close());
//
// `key` is that of a drain of the provider ndjson, made with the role "origin".
import { randomUUID } from "node:crypto";
import { Lines, mayBeABot } from "../lines.mjs";

export function contentTelemetry({ url, key, everyMs = 1_000, trustProxy = false, ...rest }) {
  const lines = new Lines({ url, key, ...rest });
  const timer = setInterval(() => lines.flush(), everyMs);
  timer.unref();

  function middleware(request, response, next) {
    if (mayBeABot(request.headers["user-agent"])) {
      const at = new Date();
      response.once("finish", () => lines.add(line(request, response, at, trustProxy)));
    }
    next();
  }
  /** Sends what is left. */
  middleware.close = () => {
    clearInterval(timer);
    return lines.flush();
  };
  return middleware;
}

function line(request, response, at, trustProxy) {
  const forwarded = (name) => (trustProxy ? request.headers[name]?.split(",")[0].trim() : undefined);
  return {
    timestamp: at.toISOString(),
    host: forwarded("x-forwarded-host") ?? request.headers.host ?? "",
    scheme: forwarded("x-forwarded-proto") ?? (request.socket.encrypted ? "https" : "http"),
    url: request.originalUrl ?? request.url,
    method: request.method,
    user_agent: request.headers["user-agent"],
    status: response.statusCode,
    bytes: Number(response.getHeader("content-length") ?? 0),
    content_type: String(response.getHeader("content-type") ?? ""),
    // What tells a repeat from a new request is not the visitor's to choose.
    request_id: forwarded("x-request-id") ?? randomUUID(),
    client_ip: forwarded("x-forwarded-for") ?? request.socket.remoteAddress ?? "",
    content_telemetry_id: request.headers["content-telemetry-id"] ?? "",
    signature_agent: request.headers["signature-agent"] ?? "",
  };
}
