"""Write measured pages into the documents, from the data under docs/measurements.

    python docs/generate.py            # write
    python docs/generate.py --check    # exit 1 if a document is not what its data gives

A block is fenced text after a comment `<!-- show FILE -->` (a record's page) or `<!-- startup FILE -->` (a table).
"""

import json
import re
import sys
from pathlib import Path

from tirx_bench.render import page
from tirx_bench.store import read_record

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("README.md", "docs/guide.md")
BLOCK = re.compile(r"(<!-- (show|startup) (\S+) -->\n)(?:```text\n.*?```|\|.*?(?=\n\n|\Z))", re.DOTALL)


def render(kind: str, path: Path) -> str:
    if kind == "show":
        return f"```text\n{page(read_record(path))}\n```"
    data = json.loads(path.read_text())
    rows = [f"| `{name}` | {t['median_s']:.2f} s |" for name, t in data["times"].items()]
    where = f"median of {len(data['times']['list']['samples_s'])} on {data['processor']}, {data['date']}"
    return "\n".join([f"| command | {where} |", "|---|---|", *rows])


def generated(text: str) -> str:
    return BLOCK.sub(lambda match: match[1] + render(match[2], ROOT / match[3]), text)


def main() -> int:
    stale = []
    for name in DOCUMENTS:
        path = ROOT / name
        before = path.read_text()
        after = generated(before)
        if before != after:
            stale.append(name)
            if "--check" not in sys.argv:
                path.write_text(after)
    if stale and "--check" in sys.argv:
        print(f"not what the data gives: {', '.join(stale)}; run python docs/generate.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
