#!/usr/bin/env bash
# Runs the blocks of a guide that are marked `bash test`: in order, in one shell, in a folder of their own.
#
#   PGURL=postgres://… PORT_A=… PORT_B=… tests/guide.sh docs/guide/cluster.md
#
# `noetl` is found on the PATH; the guide says what else it needs. Ends with the first block that fails, prints what the
# processes wrote, and stops those that the guide left running: each leaves its id in a file called *.pid.
set -euo pipefail

guide=$(realpath "$1")
desk=$(realpath "$(mktemp -d)")

stop() {
  local ended=$?
  for file in "$desk"/*.pid; do
    [ -e "$file" ] || continue
    pid=$(cat "$file")
    # An id may have been given to someone else since; ours are at home here.
    if [ "$(readlink "/proc/$pid/cwd" || true)" = "$desk" ]; then kill -KILL "$pid"; fi
  done
  if [ "$ended" -ne 0 ]; then tail -n 20 -v "$desk"/*.log >&2 || true; fi
  rm -rf "$desk"
}
trap stop EXIT

awk '/^```bash test$/ { on = 1; next } /^```$/ { on = 0; next } on' "$guide" > "$desk/guide.sh"
if ! [ -s "$desk/guide.sh" ]; then
  echo "$1 has no block marked \`bash test\`" >&2
  exit 1
fi

cd "$desk"
HOME=$desk bash -euo pipefail guide.sh
