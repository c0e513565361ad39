// For Express, Connect and plain node:http: reports what agents fetch from this server to POST /drains/ndjson.
//
//   const telemetry = contentTelemetry({ url: "https://telemetry.example.com/drains/ndjson", key: process.env.DRAIN_KEY });
//   app.use(telemetry);                       // before the routes
//   process.on("SIGTERM", () => telemetry.close());
//
// `key` is the key of an ndjson drain with the role "origin". Behind proxies of your own, also pass:
//
//   trustedProxies: ["10.0.0.0/8", "unix"]    // their addresses and networks; "unix" if they connect through a socket file
//   scheme: "https"                           // if they terminate TLS
//   host: "www.example.com"                   // if they change the Host header
//
// Each proxy must append the address it sees to X-Forwarded-For. X-Forwarded-Host, X-Forwarded-Proto and X-Request-ID are ignored,
// because visitors can send them too.
import { randomUUID } from "node:crypto";
import { BlockList, isIP } from "node:net";
import { Lines, mayBeABot, visitorFields } from "../lines.mjs";

export function contentTelemetry({ url, key, everyMs = 1_000, trustedProxies = [], scheme, host, ...rest }) {
  const lines = new Lines({ url, key, ...rest });
  const site = { scheme, host, isProxy: proxyTest(trustedProxies) };
  const timer = setInterval(() => lines.flush(), everyMs);
  timer.unref();

  function middleware(request, response, next) {
    if (mayBeABot((name) => header(request, name))) {
      // Captured before other middleware can change the request, and while the connection is open.
      const received = requestFields(request, site);
      let isAdded = false;
      const add = () => {
        if (isAdded || !response.headersSent) return;
        isAdded = true;
        lines.add({ ...received, ...responseFields(response) });
      };
      response.once("finish", add);
      // The visitor closed the connection before the end.
      response.once("close", add);
    }
    next();
  }
  /** Sends the remaining lines. */
  middleware.close = () => {
    clearInterval(timer);
    return lines.flush();
  };
  return middleware;
}

function requestFields(request, { scheme, host, isProxy }) {
  return {
    timestamp: new Date().toISOString(),
    request_id: randomUUID(),
    client_ip: clientAddress(request, isProxy),
    host: host ?? (header(request, "host") || header(request, ":authority")),
    scheme: scheme ?? (request.socket.encrypted ? "https" : "http"),
    method: request.method,
    ...visitorFields(target(request.originalUrl ?? request.url), (name) => header(request, name)),
  };
}

function responseFields(response) {
  return {
    status: response.statusCode,
    bytes: Number(response.getHeader("content-length") ?? 0),
    content_type: String(response.getHeader("content-type") ?? ""),
  };
}

/** Returns a header as text. Node.js decodes each byte of it as one character. */
function header(request, name) {
  return Buffer.from(request.headers[name] ?? "", "latin1").toString();
}

/** Returns the path and the query, with percent escapes for bytes that aren't ASCII. */
function target(sent) {
  const path = sent.replace(/^https?:\/\/[^/?]*/i, "");
  const escaped = path.replace(/[\x80-\xff]/g, (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase()}`);
  return escaped.startsWith("/") ? escaped : `/${escaped}`;
}

/** Returns the connection's address or, behind trusted proxies, the rightmost address that isn't theirs. Empty if unknown. */
function clientAddress(request, isProxy) {
  const forwarded = header(request, "x-forwarded-for").split(",");
  let address = bare(request.socket.remoteAddress ?? "");
  for (let trusted = isProxy(address); trusted && forwarded.length > 0; trusted = address !== "" && isProxy(address)) {
    address = bare(forwarded.pop());
  }
  return isIP(address) > 0 ? address : "";
}

/** Returns an address without port, brackets and IPv4-in-IPv6 prefix. */
function bare(address) {
  const [, v6, v4] = /^\[([^\]]*)\](?::\d+)?$|^([\d.]+)(?::\d+)?$/.exec(address.trim()) ?? [];
  return (v6 ?? v4 ?? address.trim()).replace(/^::ffff:(?=\d+\.)/i, "");
}

/** Returns a function that tests whether an address (empty for a socket file) belongs to a proxy. Throws if an entry is invalid. */
function proxyTest(proxies) {
  const family = (address) => (isIP(address) === 6 ? "ipv6" : "ipv4");
  const list = new BlockList();
  for (const proxy of proxies.filter((proxy) => proxy !== "unix")) {
    const [address, bits] = proxy.split("/");
    list.addSubnet(address, Number(bits ?? (isIP(address) === 6 ? 128 : 32)), family(address));
  }
  return (address) => (address === "" ? proxies.includes("unix") : isIP(address) > 0 && list.check(address, family(address)));
}
