// What is pasted at a customer's sends all user agents of bots on, and each of its filters is the same one.
import { readFileSync } from "node:fs";
import { MAY_BE_A_BOT, mayBeABot } from "../../../../edge/lines.mjs";

const edge = (file) => readFileSync(new URL(`../../../../edge/${file}`, import.meta.url), "utf8");
const faults = [];
for (const file of ["nginx/json-log.conf", "fastly/condition.vcl", "python/middleware.py"]) {
  if (!edge(file).includes(MAY_BE_A_BOT.source)) faults.push(`${file} has another filter than lines.mjs`);
}
let bots = 0;
for (const [, bot, userAgent] of readFileSync(process.argv[2], "utf8").trimEnd().split("\n").map((line) => line.split("\t"))) {
  if (bot === "-") continue;
  bots += 1;
  if (!mayBeABot(userAgent)) faults.push(`${bot} is lost: ${userAgent}`);
}
const table = JSON.parse(readFileSync(process.argv[3], "utf8"));
for (const name of table.bots.flatMap((bot) => bot.patterns)) {
  if (!mayBeABot(`${name}/1.0`)) faults.push(`${name} of the table of bots is lost`);
}
if (bots < 100) faults.push(`only ${bots} user agents of bots`);
if (faults.length > 0) throw new Error(faults.join("\n"));
