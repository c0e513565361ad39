// Evaluates the Fastly VCL expressions that `infra/edge/fastly` uses. Strings are "binary": one character per byte. Functions follow
// https://www.fastly.com/documentation/reference/vcl/functions/.
import { randomUUID } from "node:crypto";

const TOKEN = /\s*(?:(\{"[\s\S]*?"\})|"([^"]*)"|(\d+)|([A-Za-z_][\w.-]*)|(&&|\|\||==|!=|<=|<|~|[(),]))/y;
const isUtf8 = (text) => Buffer.from(Buffer.from(text, "latin1").toString()).toString("latin1") === text;
/** Functions treat a missing header as an empty string. */
const text = (value) => value ?? "";

const FUNCTIONS = {
  "json.escape": (value) => (isUtf8(text(value)) ? jsonEscape(text(value)) : ""),
  cstr_escape: (value) => text(value).replace(/[\x00-\x1f\x7f-\xff"\\]/g, cEscape),
  substr: (value, offset, length) => text(value).slice(offset, offset + length),
  "std.strlen": (value) => text(value).length,
  "utf8.is_valid": (value) => isUtf8(text(value)),
  "uuid.version4": () => randomUUID(),
  regsub: (value, pattern, by) => text(value).replace(new RegExp(pattern), by.replace(/\\(\d)/g, "$$$1")),
  strftime: (format, at) => {
    if (format !== "%Y-%m-%dT%H:%M:%S+00:00") throw new Error(`unknown format ${format}`);
    return at.toISOString().replace(/\.\d+Z$/, "+00:00");
  },
};

function cEscape(byte) {
  return byte === '"' || byte === "\\" ? `\\${byte}` : `\\x${byte.charCodeAt(0).toString(16).padStart(2, "0")}`;
}

function jsonEscape(binary) {
  const short = { '"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r" };
  const unit = (code) => `\\u${code.toString(16).toUpperCase().padStart(4, "0")}`;
  const characters = [...Buffer.from(binary, "latin1").toString()].map((character) => {
    const code = character.codePointAt(0);
    if (short[character]) return short[character];
    if (code > 0xffff) return unit(character.charCodeAt(0)) + unit(character.charCodeAt(1));
    return code <= 0x1f || [0x7f, 0x2028, 0x2029].includes(code) ? unit(code) : character;
  });
  return Buffer.from(characters.join("")).toString("latin1");
}

/** Returns the value of an expression. `variable` returns the value of a variable, or undefined for a missing header. */
export function evaluate(source, variable) {
  const tokens = tokenize(source);
  let at = 0;
  const next = () => tokens[at++];
  const takes = (sign) => tokens[at]?.sign === sign && Boolean(next());

  function or() {
    let value = and();
    while (takes("||")) value = [value, and()].some(Boolean);
    return value;
  }
  function and() {
    let value = comparison();
    while (takes("&&")) value = [value, comparison()].every(Boolean);
    return value;
  }
  function comparison() {
    const value = primary();
    if (takes("==")) return value === primary();
    if (takes("!=")) return value !== primary();
    if (takes("<")) return value < primary();
    if (takes("<=")) return value <= primary();
    if (takes("~")) return pattern(primary()).test(text(value));
    return value;
  }
  function primary() {
    const token = next();
    if (token?.sign === "(") {
      const value = or();
      if (!takes(")")) throw new Error(`unclosed parenthesis in ${source}`);
      return value;
    }
    if (token && "value" in token) return token.value;
    if (token?.name === undefined) throw new Error(`missing value at ${JSON.stringify(token)} in ${source}`);
    if (!takes("(")) return variable(token.name);
    const values = [];
    while (!takes(")")) {
      values.push(or());
      takes(",");
      if (at > tokens.length) throw new Error(`unclosed parenthesis in ${source}`);
    }
    if (token.name === "if") return values[0] ? values[1] : values[2];
    const call = FUNCTIONS[token.name];
    if (!call) throw new Error(`unknown function ${token.name}`);
    return call(...values);
  }

  const value = or();
  if (at < tokens.length) throw new Error(`unexpected ${JSON.stringify(tokens[at])} in ${source}`);
  return value;
}

function pattern(source) {
  const [, flag, rest] = /^(\(\?i\))?([\s\S]*)$/.exec(source);
  return new RegExp(rest, flag ? "i" : "");
}

function tokenize(source) {
  const tokens = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < source.trimEnd().length) {
    const from = TOKEN.lastIndex;
    const found = TOKEN.exec(source);
    if (!found) throw new Error(`invalid expression ${source.slice(from)}`);
    const [, long, short, number, name, sign] = found;
    if (long !== undefined) tokens.push({ value: long.slice(2, -2) });
    else if (short !== undefined) tokens.push({ value: short });
    else if (number !== undefined) tokens.push({ value: Number(number) });
    else tokens.push(name === undefined ? { sign } : { name });
  }
  return tokens;
}

/** Returns the line of a log format, version 2. `%{…}V` is the value of an expression, in which braces are escaped. */
export function render(format, variable) {
  return format.replace(/%\{((?:[^}\\]|\\[\s\S])*)\}V/g, (_, source) => {
    const value = evaluate(source.replace(/\\([{}])/g, "$1"), variable);
    return value === undefined ? "(null)" : String(value);
  });
}
