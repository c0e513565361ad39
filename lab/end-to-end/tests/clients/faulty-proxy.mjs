// An HTTP proxy in front of the service. For each path, it rejects the first request with `Retry-After` and a truncated body,
// loses the second response, truncates the third one, and forwards the rest. Prints its address.

import { createServer, request } from "node:http";

const service = new URL(process.env.BASE_URL);
const seen = new Map();

const server = createServer((incoming, outgoing) => {
  const path = incoming.url.split("?")[0];
  const attempt = (seen.get(path) ?? 0) + 1;
  seen.set(path, attempt);
  if (attempt === 1) {
    incoming.resume();
    outgoing.writeHead(503, { "retry-after": "1", "content-type": "application/problem+json", "content-length": 100 });
    return outgoing.write('{"status":503,"code":"unavailable","detail":"away"}', () => outgoing.destroy());
  }
  const { method, url, headers } = incoming;
  const passed = request({ host: service.hostname, port: service.port, method, path: url, headers }, (answer) => {
    if (attempt === 2) return answer.resume().on("end", () => outgoing.destroy());
    outgoing.writeHead(answer.statusCode, answer.headers);
    if (attempt > 3) return answer.pipe(outgoing);
    answer.once("data", (part) => outgoing.write(part.subarray(0, part.length / 2), () => outgoing.destroy())).resume();
  });
  incoming.pipe(passed);
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
