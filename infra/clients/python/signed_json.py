"""Parses, compares and verifies signed JSON for verify_statement.py: the canonical form (RFC 8785), and Ed25519 keys of manifests."""

import json
import re
from base64 import urlsafe_b64encode
from datetime import datetime
from hashlib import sha256, sha512

FORM = "must have the documented members and values, in canonical form"


def members(**forms):
    """Returns the pattern of an object in canonical form."""
    return r"\{" + ",".join(f'"{name}":{forms[name]}' for name in sorted(forms)) + r"\}"


def several(form, around=r"\[\]"):
    return f"{around[:2]}(?:{form}(?:,{form})*)?{around[2:]}"


class Wrong(Exception):
    """A difference after which nothing more can be checked."""


def require(is_right, text=FORM):
    if not is_right:
        raise Wrong(text)


def canonical(value):
    """Returns the form of RFC 8785, for values without fractions."""
    if isinstance(value, dict):
        inside = sorted(value.items(), key=lambda member: member[0].encode("utf-16-be"))
        return "{" + ",".join(f"{canonical(name)}:{canonical(member)}" for name, member in inside) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, int) and abs(value) >= 2**53:
        raise ValueError
    return json.dumps(value, ensure_ascii=False)


def parse(text, form):
    """Returns a JSON value. Raises Wrong unless the text has this pattern and the canonical form."""
    try:
        value = json.loads(text.decode()) if re.fullmatch(form, text.decode()) else None
        require(value and canonical(value).encode() == text)
        return value
    except ValueError:
        raise Wrong(FORM) from None


def paths(value):
    """Returns the members of nested objects by their path, such as `events.fetch.claimed`."""
    for name, member in value.items():
        yield from ((f"{name}.{path}", figure) for path, figure in paths(member)) if isinstance(member, dict) else [(name, member)]


def compare(what, stated, actual):
    for key in sorted(stated.keys() | actual.keys()):
        a, b = (canonical(figures[key]) if key in figures else "missing" for figures in (stated, actual))
        if a != b:
            yield f"{what} {canonical([key] if isinstance(key, str) else key)}: is {a}, must be {b}"


def order(what, keys):
    return [] if keys == sorted(set(keys)) else [f"{what}: must be sorted, each once"]


P, ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P


def add(p, q):
    a, b, c, d = (p[1] - p[0]) * (q[1] - q[0]), (p[1] + p[0]) * (q[1] + q[0]), 2 * p[3] * q[3] * D, 2 * p[2] * q[2]
    return (b - a) * (d - c) % P, (d + c) * (b + a) % P, (d - c) * (d + c) % P, (b - a) * (b + a) % P


def encoded_product(scalar, point, total=(0, 1, 1, 0)):
    """Returns the encoded sum of `total` and `point` times `scalar`."""
    while scalar:
        total, point, scalar = (add(total, point) if scalar & 1 else total), add(point, point), scalar >> 1
    x, y = (coordinate * pow(total[2], -1, P) % P for coordinate in total[:2])
    return total, (y | (x & 1) << 255).to_bytes(32, "little")


def decode(text):
    """Raises ValueError for what isn't a point, and for points of small order, with which anyone can sign."""
    number = int.from_bytes(text, "little")
    y = number % 2**255 % P
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    x = x if x * x % P == square else x * pow(2, (P - 1) // 4, P) % P
    x = x if x & 1 == number >> 255 else -x % P
    if x * x % P != square or encoded_product(8, (x, y, 1, x * y % P))[1] == (1).to_bytes(32, "little"):
        raise ValueError
    return x, y, 1, x * y % P


def is_signed(key, message, signature):
    """RFC 8032, section 5.1.7."""
    commitment, response = signature[:32], int.from_bytes(signature[32:], "little")
    challenge = int.from_bytes(sha512(commitment + key + message).digest(), "little") % ORDER
    base = decode((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
    try:
        decode(commitment)
        return len(signature) == 64 and response < ORDER and commitment == encoded_product(response, base, encoded_product(8 * ORDER - challenge, decode(key))[0])[1]
    except ValueError:
        return False


def manifest_keys(text):
    """Returns public keys by ID and by RFC 7638 thumbprint, with the time in milliseconds from which they are invalid."""
    keys, entries = {}, json.loads(text).get("keys", [])
    require(len(entries) <= 100)
    for entry in entries:
        number, expires = 0, entry.get("expires")
        for character in entry["publicKey"][1:]:
            number = number * 58 + "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz".index(character)
        public = number.to_bytes(34, "big")
        jwk = f'{{"crv":"Ed25519","kty":"OKP","x":"{urlsafe_b64encode(public[2:]).decode().rstrip("=")}"}}'
        names = {entry["id"], urlsafe_b64encode(sha256(jwk.encode()).digest()).decode().rstrip("=")}
        require(entry["type"] == "Ed25519" and re.fullmatch("[ -~]{1,256}", entry["id"]) and not names & keys.keys())
        require(entry["publicKey"][0] == "z" and public[:2] == b"\xed\x01" and decode(public[2:]))
        require(expires is None or re.fullmatch("[-0-9]{10}T[0-9:]{8}([.][0-9]+)?(Z|[-+][0-9:]{5})", expires))
        keys |= dict.fromkeys(names, (public[2:], expires and int(datetime.fromisoformat(expires).timestamp()) * 1000))
    return keys
