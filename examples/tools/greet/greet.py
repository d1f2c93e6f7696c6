"""A tool kind in Python: one JSON line in for each call, one JSON line out for its outcome."""
import json
import sys


def greet(call):
    fields = call["fields"]
    if not fields["who"].strip():
        return {"status": "error", "error": {"kind": "client_error", "code": "GREET_NOBODY", "message": "there is nobody to greet"}}
    text = f"Hello, {fields['who']}!"
    return {"status": "ok", "result": {"text": " ".join([text] * int(fields.get("times") or 1))}}


for line in sys.stdin:
    asked = json.loads(line)
    if "call" not in asked:
        continue  # A call that is cancelled here has been answered long before.
    say = lambda **what: print(json.dumps({"id": asked["id"], **what}), flush=True)
    say(log=f"greeting for attempt {asked['call']['attempt']}")
    say(outcome=greet(asked["call"]))
