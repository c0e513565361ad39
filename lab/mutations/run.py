#!/usr/bin/env python3
"""Apply each fault in mutations.toml and check that its test fails (see README.md)."""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Don't store proptest counterexamples found under a fault.
ENVIRONMENT = {**os.environ, "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "1"}
LIST = pathlib.Path(__file__).with_name("mutations.toml")


def mutations(only):
    """Return the faults whose id starts with `only`."""
    listed = tomllib.loads(LIST.read_text())["mutation"]
    return [one for one in listed if one["id"].startswith(only)]


def faults_in_list(listed):
    """Yield errors in the list: a duplicate id, or a text that doesn't occur exactly once in its file."""
    ids = [one["id"] for one in listed]
    yield from (f"{name}: used {ids.count(name)} times" for name in sorted(set(ids)) if ids.count(name) > 1)
    for one in listed:
        found = (ROOT / one["file"]).read_text().count(one["find"])
        if found != 1:
            yield f"{one['id']}: the text to replace occurs {found} times in {one['file']}"
        if one["find"] == one["replace"]:
            yield f"{one['id']}: changes nothing"


def run_test(one):
    """Run the named test, or the whole target without one. Return the failed tests (None if no test ran) and the output."""
    target = ["--lib"] if one["target"] == "lib" else ["--test", one["target"]]
    name = ["--exact", one["test"]] if one["test"] else []
    command = ["cargo", "test", "--package", one["package"], *target, "--", *name]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=ENVIRONMENT)
    failed = re.findall(r"^test (\S+) \.\.\. FAILED$", done.stdout, re.MULTILINE)
    if not failed and (done.returncode != 0 or " 0 passed" in done.stdout):
        return None, done.stdout
    return failed, done.stdout


def is_noticed(one):
    """Apply a fault, run its test and restore the file. Return whether a test failed."""
    path = ROOT / one["file"]
    original = path.read_text()
    try:
        path.write_text(original.replace(one["find"], one["replace"]))
        failed, output = run_test(one)
    finally:
        path.write_text(original)
    result = "NOT RUN" if failed is None else "noticed" if failed else "NOT NOTICED"
    print(f"{one['id']:12} {result:12} {', '.join(failed or [one['test']])}: {one['what']}", flush=True)
    if failed is None:
        print(output[-3000:], flush=True)
    return bool(failed)


def main():
    """Exit with 1 if the list has errors or a fault is not noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="PREFIX", help="run only faults whose id starts with PREFIX")
    parser.add_argument("--check", action="store_true", help="check the list without running tests")
    arguments = parser.parse_args()
    listed = mutations(arguments.only)
    wrong = list(faults_in_list(listed))
    if wrong:
        sys.exit("\n".join(wrong))
    if arguments.check:
        print(f"{len(listed)} faults can be applied")
        return
    unnoticed = [one["id"] for one in listed if not is_noticed(one)]
    print(f"{len(listed) - len(unnoticed)} of {len(listed)} faults noticed")
    if unnoticed:
        sys.exit(f"not noticed: {', '.join(unnoticed)}")


if __name__ == "__main__":
    main()
