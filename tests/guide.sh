#!/usr/bin/env bash
# Runs the blocks of pages that are marked `bash test`, in one shell and one temporary directory: page by page, in their
# order. Blocks that are marked `bash test last` run after all others.
#
#   PGURL=postgres://… PORT_A=… PORT_B=… tests/guide.sh docs/guide/deploy/cluster.md docs/guide/deploy/upgrade.md
#
# `noetl` is found on the PATH; the pages say what else they need. The script exits at the first block that fails, prints
# the logs of the processes, and kills the processes that the pages left running: each leaves its id in a file called *.pid.
set -euo pipefail

desk=$(realpath "$(mktemp -d)")

stop() {
  local ended=$?
  for file in "$desk"/*.pid; do
    [ -e "$file" ] || continue
    pid=$(cat "$file")
    # The system may have reused the id; a process of the pages has this directory.
    if [ "$(readlink "/proc/$pid/cwd" || true)" = "$desk" ]; then kill -KILL "$pid"; fi
  done
  if [ "$ended" -ne 0 ]; then tail -n 20 -v "$desk"/*.log >&2 || true; fi
  rm -rf "$desk"
}
trap stop EXIT

# Prints the blocks of a page ($2) that are opened by a line ($1).
blocks() {
  awk -v opening="$1" '$0 == opening { on = 1; next } /^```$/ { on = 0; next } on' "$2"
}

for page in "$@"; do
  blocks '```bash test' "$page" > "$desk/page.sh"
  if ! [ -s "$desk/page.sh" ]; then
    echo "$page has no block marked \`bash test\`" >&2
    exit 1
  fi
  cat "$desk/page.sh" >> "$desk/guide.sh"
done
for page in "$@"; do
  blocks '```bash test last' "$page" >> "$desk/guide.sh"
done

cd "$desk"
HOME=$desk bash -euo pipefail guide.sh
