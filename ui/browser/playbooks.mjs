// Playbooks of the scenarios.

export const greeting = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: greeting, path: demo/greeting }
workload: { name: Ada, times: 3 }
workflow:
  - step: greet
    tool:
      kind: python
      input: { name: "{{ workload.name }}", times: "{{ workload.times }}" }
      code: |
        for number in range(times):
            print(f"hello {name} {number}")
        result = {"greeted": name}
`;

export const division = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: division, path: demo/division }
workload: { divisor: 0 }
workflow:
  - step: start
    next: [{ step: divide }]
  - step: divide
    tool:
      - compute:
          kind: python
          input: { divisor: "{{ workload.divisor }}" }
          code: |
            print("dividing by", divisor)
            result = {"quotient": 10 / divisor}
    next: [{ step: report }]
  - step: report
    tool: { kind: noop }
`;

export const recovery = (address) => `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: recovery, path: demo/recovery }
workflow:
  - step: fetch
    tool: { kind: http, url: "${address}" }
`;

export const waiting = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: waiting, path: demo/waiting }
workflow:
  - step: approval
    tool: { kind: wait, signal: approved }
`;

export const loop = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: loop, path: demo/loop }
workload: { items: 200 }
workflow:
  - step: each
    loop: { in: "{{ range(workload.items) }}", iterator: n, spec: { mode: parallel, max_in_flight: 8 } }
    tool: { kind: noop }
`;

export const failingLoop = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: failing-loop, path: demo/failing-loop }
workload: { items: 1000, every: 100 }
workflow:
  - step: each
    spec: { policy: { failure: { mode: best_effort } } }
    loop: { in: "{{ range(workload.items) }}", iterator: n, spec: { mode: parallel, max_in_flight: 8 } }
    tool:
      - check:
          kind: noop
          result: "{{ iter.n }}"
          spec: { policy: { rules: [{ when: "{{ iter.n % workload.every == 1 }}", then: { do: fail } }] } }
    next: [{ step: report }]
  - step: report
    tool: { kind: noop }
`;

/** Steps that write variables and print. */
export const ledger = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: ledger, path: demo/ledger }
workload: { amounts: [3, 4] }
workflow:
  - step: open
    tool: { kind: shell, command: "echo opened the ledger" }
    set: { ctx.total: 0, ctx.owner: Ada }
    next: [{ step: add }]
  - step: add
    tool:
      - entry:
          kind: shell
          command: "echo added an entry"
          spec:
            policy:
              rules:
                - when: "{{ outcome.status == 'ok' }}"
                  then: { do: continue, set_ctx: { total: "{{ workload.amounts | sum }}" } }
                - else: { then: { do: fail } }
    next: [{ step: close }]
  - step: close
    tool: { kind: noop }
    set: { ctx.total: "{{ ctx.total + 1 }}", ctx.closed: true }
`;

/** Prints a line twenty times a second. */
export const printing = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: printing, path: demo/printing }
workload: { lines: 400 }
workflow:
  - step: print
    tool:
      kind: python
      input: { lines: "{{ workload.lines }}" }
      code: |
        import time
        for number in range(lines):
            print(f"line {number}", flush=True)
            time.sleep(0.05)
        result = {"lines": lines}
`;

export const usesCredential = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: orders, path: demo/orders }
workflow:
  - step: load
    tool: { kind: http, url: "https://example.com", auth: orders_api }
`;

export const wrongPool = (kind, pool) => `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: ${pool}, path: demo/${pool} }
workflow:
  - step: work
    tool: { kind: ${kind}, command: echo done, spec: { pool: ${pool} } }
`;

export const approval = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: approval, path: demo/approval }
workload: { change: nothing }
workflow:
  - step: ask
    tool:
      - decision:
          kind: wait
          approval:
            title: "Raise {{ workload.change }}?"
            description: The change takes effect at once.
            form:
              type: object
              properties:
                amount: { type: integer, description: the new limit, default: 200 }
                urgent: { type: boolean }
          timeout: 1h
    next:
      spec: { mode: exclusive }
      arcs:
        - { step: end, args: { verdict: applied }, when: "{{ ask.approved }}" }
        - { step: end, args: { verdict: rejected } }
  - step: end
    tool:
      - report:
          kind: noop
          result:
            verdict: "{{ args.verdict }}"
            amount: "{{ ask.amount }}"
            urgent: "{{ ask.urgent }}"
            comment: "{{ ask.comment | default('') }}"
`;
