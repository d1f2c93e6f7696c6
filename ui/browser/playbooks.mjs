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
