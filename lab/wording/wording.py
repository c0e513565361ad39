#!/usr/bin/env python3
"""Reports wording habits per 10,000 words of comments, documents and pages, and the files with the most of them.

Usage: wording.py [DIRECTORY]

The report helps to find sentences to rewrite. It is not a test: replacing words without rewriting the sentence makes the text worse.
"""
import collections
import pathlib
import re
import subprocess
import sys

RARE = {
    "tell, told": r"\b(tells?|told|telling)\b",
    "stand, lie, hold (for be)": r"\b(stands?|stood|lies|lie|beneath)\b",
    "nobody, none, nothing": r"\b(nobody|none|nothing)\b",
    "who, whose": r"\b(who|whoever|whose)\b",
    "is taken, is let, comes to": r"\b((is|are) (taken|let)|goes on|comes to)\b",
    "a row (for per row)": r"\b(bytes|ms|rows|lines|events|reports) an? (row|line|event|second|read|page)\b",
    "sentence starts with Of, By, Who, What": r"(?:^|[.:] )(Of|By|Whose|Where|Whether|Who|What) [a-z]",
}
COMMON = {
    "return": r"\breturn(s|ed|ing)?\b",
    "error": r"\berrors?\b",
    "default": r"\bdefaults?\b",
    "create": r"\bcreat(e|es|ed|ing)\b",
    "invalid, available": r"\b(invalid|available|unavailable|ensures?)\b",
    "current, response, cache, configure": r"\b(current(ly)?|responses?|cached?|caches|configur\w+)\b",
}
TEST = re.compile(r"#\[(?:tokio::)?test[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:async )?fn (\w+)")


def prose(path, source):
    """Returns the kind of a file and its prose, or None."""
    if path.suffix == ".rs":
        return "comments", "\n".join(re.findall(r"^\s*//[/!]?\s?(.*)$", source, re.M))
    if path.suffix == ".md" and path.name != "CHANGELOG.md":
        return "documents", re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", " ", source, flags=re.S)
    if path.suffix == ".html":
        return "pages", re.sub(r"\{[%{#].*?[%}#]\}|<[^>]*>", " ", source, flags=re.S)
    return None


def count(pattern, text):
    return sum(1 for _ in re.finditer(pattern, text, re.M))


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, check=True, text=True).stdout
    texts, worst, names = collections.defaultdict(list), [], []
    for name in filter(None, listed.split("\0")):
        try:
            source = (root / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if name.endswith(".rs"):
            names += TEST.findall(source)
        found = prose(pathlib.Path(name), source)
        if found is None:
            continue
        kind, text = found
        texts[kind].append(text)
        words = count(r"[A-Za-z']+", text)
        if words > 120:
            worst.append((10_000 * sum(count(p, text) for p in RARE.values()) / words, name))
    kinds = sorted(texts)
    joined = {kind: "\n".join(texts[kind]) for kind in kinds}
    words = {kind: count(r"[A-Za-z']+", joined[kind]) for kind in kinds}
    print(f"{'per 10,000 words':40}" + "".join(f"{kind:>12}" for kind in kinds))
    for title, habits in (("should be rare", RARE), ("should be common", COMMON)):
        print(title)
        for habit, pattern in habits.items():
            print(f"  {habit:38}" + "".join(f"{10_000 * count(pattern, joined[k]) / words[k]:12.1f}" for k in kinds))
    print(f"{'words':40}" + "".join(f"{words[kind]:12}" for kind in kinds))
    if names:
        print(f"{len(names)} tests, mean name length {sum(map(len, names)) / len(names):.0f}, maximum {max(map(len, names))}")
    print("files with the most rare habits")
    for rate, name in sorted(worst, reverse=True)[:10]:
        print(f"  {rate:6.0f}  {name}")


if __name__ == "__main__":
    main()
