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
