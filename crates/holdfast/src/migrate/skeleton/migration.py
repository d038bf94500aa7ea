#!/usr/bin/env python3
"""{NAME}: brings {TARGET} data from version {FROM} to version {TO}.

It is given a question on standard input and prints an answer on standard output. It has no network, and can
write into its own directory (the current one) only. Once it was released, it must not change any more.
"""

import json
import sys


def migrate(values, stores):
    """Returns the values of version {TO}. A value {"$secret": ...} is a secret: move it, never print it."""
    # values["listen"] = {"port": values.pop("port")}
    #
    # Stores are copied forward, never changed:
    # with open(f"{stores}/metadata.v{FROM}") as old, open("stores/metadata.v{TO}", "w") as new:
    #     new.write(old.read())
    return values


question = json.load(sys.stdin)
answer = {
    "values": migrate(question["values"], question["stores"]),
    # Functions that no longer apply to data that was made before:
    "unavailable": [],
    # For the people who run the upgrade:
    "notes": [],
}
json.dump(answer, sys.stdout)
