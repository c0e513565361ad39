// The pasted filters are equal everywhere, and forward the user agents of all bots and all requests with a Signature-Agent.
import { readFileSync } from "node:fs";
import { MAY_BE_A_BOT, mayBeABot } from "../../../../infra/edge/lines.mjs";

const edge = (file) => readFileSync(new URL(`../../../../infra/edge/${file}`, import.meta.url), "utf8");
const isSent = (headers) => mayBeABot((name) => headers[name]);
const faults = [];
for (const file of ["nginx/json-log.conf", "fastly/condition.vcl", "python/middleware.py"]) {
  if (!edge(file).includes(MAY_BE_A_BOT.source)) faults.push(`${file} has another filter than lines.mjs`);
}
const [table, ...corpora] = process.argv.slice(2).reverse();
let bots = 0;
for (const corpus of corpora) {
  for (const [, bot, , , userAgent] of readFileSync(corpus, "utf8").trimEnd().split("\n").map((line) => line.split("\t"))) {
    if (bot === "-") continue;
    bots += 1;
    if (!isSent({ "user-agent": userAgent })) faults.push(`${bot} is lost: ${userAgent}`);
  }
}
for (const name of JSON.parse(readFileSync(table, "utf8")).bots.flatMap((bot) => bot.patterns ?? [])) {
  if (!isSent({ "user-agent": `${name}/1.0` })) faults.push(`${name} of the table of bots is lost`);
}
const PERSON = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0";
if (isSent({ "user-agent": PERSON }) || isSent({}) || isSent({ "user-agent": PERSON, "signature-agent": "" })) faults.push("a person is sent");
if (!isSent({ "user-agent": PERSON, "signature-agent": '"https://chatgpt.com"' })) faults.push("a signed agent is lost");
if (bots < 100) faults.push(`only ${bots} user agents of bots`);
if (faults.length > 0) throw new Error(faults.join("\n"));
