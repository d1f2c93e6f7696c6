"""An external tool in Python: it reads one line of JSON for each call and writes one line of JSON with the outcome."""
import json
import sys


def greet(call):
    fields = call["fields"]
    if not fields["who"].strip():
        return {"status": "error", "error": {"kind": "client_error", "code": "GREET_NOBODY", "message": "`who` is empty"}}
    text = f"Hello, {fields['who']}!"
    return {"status": "ok", "result": {"text": " ".join([text] * int(fields.get("times") or 1))}}


for line in sys.stdin:
    request = json.loads(line)
    if "call" not in request:
        continue  # A cancellation of a call that has ended.
    send = lambda **fields: print(json.dumps({"id": request["id"], **fields}), flush=True)
    send(log=f"greeting for attempt {request['call']['attempt']}")
    send(outcome=greet(request["call"]))
