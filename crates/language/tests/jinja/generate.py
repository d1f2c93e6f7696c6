"""Writes table.json: what Jinja2 makes of each expression, to compare our templates with.

Run with Jinja2 installed: `python3 generate.py`. A template that is one `{{ … }}` is compared as a value,
anything else as text. `differs` names the few places where the house deliberately answers otherwise.
"""

import json
import pathlib

import jinja2

CONTEXT = {
    "n": 7, "neg": -3, "f": 2.5, "big": 9007199254740993, "zero": 0, "yes": True, "no": False, "nil": None,
    "s": "Hello World", "empty": "", "pad": "  x  ", "num": "42", "html": "<a href='x'>&</a>", "multi": "a\nb\n\nc",
    "csv": "a,b,c", "uni": "żółw ✓", "quote": "it's \"q\"",
    "list": [3, 1, 2], "words": ["b", "A", "c"], "dups": [1, 2, 1, 3, 2], "none_list": [], "nested": [[1, 2], [3, [4]]],
    "map": {"b": 1, "a": {"c": [10, 20]}}, "empty_map": {},
    "users": [
        {"name": "Ada", "age": 36, "tags": ["x"], "admin": True, "team": {"id": 1}},
        {"name": "bob", "age": 25, "tags": [], "admin": False, "team": {"id": 2}},
        {"name": "Cy", "age": 36, "tags": ["y", "z"], "admin": True, "team": {"id": 1}},
    ],
}

VALUES = """
n
f
big
nil
yes
list
map
map.a.c[1]
map['a']['c'][0]
users[0].name
users[-1].age
s[0]
s[-1]
1 + 2
n - 10
n * 3
n / 2
n // 2
neg // 2
n % 4
neg % 4
2 ** 10
2 ** -1
f * 2
1.5 + 1.5
-n
10 / 4 * 2
1 + 2 * 3 - 4
(1 + 2) * 3
7 // 2.0
big + 1
big * 1000
'a' + 'b'
'ab' * 3
[1] + [2, 3]
[0] * 3
'a' ~ 1 ~ none ~ true
n == 7
n != 7
n > 3 and n < 10
1 < n < 10
1 < n > 3
not yes
not n
yes and no
no or yes
nil or 'x'
'' or none
0 or []
n and 'y'
'x' in s
'World' in s
3 in list
9 in list
9 not in list
'b' in map
1 == 1.0
'1' == 1
true == 1
none == none
[1, 2] == [1, 2]
{'a': 1} == {'a': 1}
'a' < 'b'
[1, 2] < [1, 3]
missing == 1
missing != 1
missing in [1]
missing is defined
missing is undefined
missing.deep.er is defined
missing | default('d')
missing.deep.er | default('d')
missing | d(3)
nil | default('d')
nil | default('d', true)
empty | default('d', true)
zero | default(5, true)
zero | default(5)
'yes' if n == 7 else 'no'
'yes' if missing else 'no'
n is odd
n is even
n is divisibleby 7
n is number
f is float
n is integer
s is string
yes is boolean
nil is none
list is sequence
map is mapping
list is iterable
s is lower
'abc' is lower
'ABC' is upper
n is eq 7
n is ne 8
n is lt 8
n is le 7
n is gt 8
n is ge 7
3 is in list
yes is true
no is false
n is sameas n
n is not even
s | lower
s | upper
'hello world' | title
'hELLO' | capitalize
pad | trim
'xxaxx' | trim('x')
s | replace('o', '0')
s | replace('o', '0', 1)
s | length
list | count
s | reverse
list | reverse | list
list | first
list | last
none_list | length
list | sort
list | sort(reverse=true)
words | sort
words | sort(case_sensitive=true)
users | sort(attribute='age') | map(attribute='name') | list
dups | unique | list
list | sum
users | sum(attribute='age')
list | min
list | max
words | join
list | join(', ')
users | join('/', attribute='name')
users | map(attribute='team.id') | list
users | map(attribute='nope', default=0) | list
words | map('upper') | list
words | map('replace', 'b', 'd') | list
list | select('odd') | list
list | reject('odd') | list
list | select('gt', 1) | list
users | selectattr('admin') | map(attribute='name') | list
users | rejectattr('admin') | map(attribute='name') | list
users | selectattr('age', 'eq', 36) | map(attribute='name') | list
users | selectattr('name', 'in', ['Ada', 'bob']) | map(attribute='age') | list
users | groupby('age') | map('first') | list
list | batch(2) | list
list | batch(2, 0) | list
list | slice(2) | list
map | dictsort | map('first') | list
map | items | map('first') | list
map | list
s | list | length
csv | list | first
num | int
'0x1A' | int(0, 16)
'abc' | int(0)
'3.7' | float
3.7 | int
'x' | float(1.5)
n | float
n | string
f | string
2.4567 | round(2)
2.5 | round
-2.7 | round(0, 'floor')
2.1 | round(0, 'ceil')
neg | abs
neg | abs + 1
html | escape | string
'a b&c' | urlencode
{'a': 1, 'b': 'x y'} | urlencode
s | wordcount
'a b c d' | wordwrap(3)
'%s-%s' | format('a', 1)
'%.2f' | format(3.14159)
'%05d' | format(42)
'abc' | center(7)
multi | indent(2)
multi | indent(2, true)
'a long text here' | truncate(9)
'<b>x</b> y' | striptags
1000 | filesizeformat
list | tojson
'<x>' | tojson
none | tojson
s | attr('nope') is defined
s.upper()
s.lower()
s.split()
csv.split(',')
csv.split(',', 1)
pad.strip()
pad.lstrip()
pad.rstrip()
s.startswith('Hello')
s.endswith('x')
s.replace('o', '0')
s.find('World')
s.count('o')
s.title()
'abc'.capitalize()
'12'.isdigit()
'a'.isalpha()
', '.join(words)
'{}-{}'.format(1, 'b')
'{a}'.format(a=1)
multi.splitlines()
map.get('b')
map.get('zz')
map.get('zz', 5)
map.keys() | list
map.values() | list | length
map.items() | list | length
list.count(1)
list[1:]
list[:2]
list[::2]
list[::-1]
list[-2:]
s[1:4]
s[::-1]
s[:-1]
''[::-1]
list[0:5:-1]
list[5:0:-1]
list[-1:-9:-1]
list[9:]
list[-9:2]
s[8:2:-2]
list[1:1]
uni[0]
uni | length
uni | upper
range(3) | list
range(1, 8, 3) | list
range(5, 0, -2) | list
dict(a=1, b='x')
[1, 'a', none, true, 1.5]
{'k': [n, {'z': nil}]}
(1, 2)
[] 
{}
''
'a\\nb'
"it's"
1e3
1.0
100000000000000000000 // 10000000000000
users | map(attribute='name') | map('lower') | join(',')
users | selectattr('tags') | list | length
users | map(attribute='age') | max
(users | selectattr('name', 'equalto', 'bob') | first).age
(list | sort)[0]
(s.split(' ') | last)[0]
list | length > 2
n | string | length
n ~ ''
nested | length
nested[1][1][0]
'a' if no
words | map('length') | sum
not (n > 3 or missing)
(missing | default({})).x | default(1)
""".strip("\n").split("\n")

TEXTS = [
    "a{{ n }}b", "{{ n }}{{ f }}", "{{ yes }} {{ nil }} {{ list }} {{ map }}", "x {{ s | upper }}!",
    "{% if n > 3 %}big{% else %}small{% endif %}", "{% if missing %}x{% elif n %}y{% else %}z{% endif %}",
    "{% for x in list %}{{ x }},{% endfor %}", "{% for x in none_list %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in list %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.first }}/{{ loop.last }}/{{ loop.length }};{% endfor %}",
    "{% for x in list %}{{ loop.revindex }}{{ loop.revindex0 }}{% endfor %}",
    "{% for x in list %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for x in list %}{{ loop.previtem | default('-') }}{{ loop.nextitem | default('-') }} {% endfor %}",
    "{% for x in list if x > 1 %}{{ x }}{% endfor %}", "{% for k, v in map.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in map %}{{ k }}{% endfor %}", "{% for a in list %}{% for b in words %}{{ a }}{{ b }}{{ loop.index }} {% endfor %}{% endfor %}",
    "{% set x = n + 1 %}{{ x }}!", "{% set x %}a{{ n }}{% endset %}{{ x }}{{ x }}", "{% set a, b = 1, 2 %}{{ a }}-{{ b }}",
    "{% with x = 1 %}{{ x }}{% endwith %}.", "{% filter upper %}abc {{ n }}{% endfilter %}",
    "{% set ns = namespace(t=0) %}{% for x in list %}{% set ns.t = ns.t + x %}{% endfor %}{{ ns.t }}.",
    "a  {{- n -}}  b", "a {%- if yes %} x {%- endif %} b", "{# gone #}a{# gone #}", "{% raw %}{{ n }}{% endraw %}",
    "line\n{% if yes %}\nx\n{% endif %}\nend", "{{ 'a' if no }}|", "trailing {{ n }}\n", "{{ 1 }} {{ 1.0 }} {{ 0.1 + 0.2 }}",
    "{{ [1, 'a', none, true, 1.5] }} {{ {'k': 'v'} }} {{ (1, 2) }}", "{{ quote }} {{ [quote] }}", "{{ uni }} {{ [uni] }}",
    "{{ 'a\\tb' }} {{ ['a\\tb'] }}", "{{ users[0] }} ", "{% for u in users %}{{ u.name }}:{{ u.tags | join('+') }} {% endfor %}",
    "{% for g in users | groupby('age') %}{{ g.grouper }}={{ g.list | length }};{% endfor %}",
    "{% for x in range(3) %}{{ x }}{{ ', ' if not loop.last }}{% endfor %}", "{% for r in list | batch(2) %}{{ r | list }}{% endfor %}.",
    "{{ '{{' }} n }}", "{% if 'a' in words %}y{% else %}n{% endif %}{{ n }}", "{% for x in 'abc' %}{{ x }}-{% endfor %}",
]

DIFFERS = {
    "missing < 5": "a missing value is neither before nor after anything",
    "'abc' | int": "text that is no number is an error, not 0",
    "map | tojson": "keys keep their order",
    "'ż' | tojson": "text stays readable: only what HTML needs is escaped",
    "1e20 | string": "a float is written in full",
    "missing ~ 'x'": "using a missing value is an error",
    "missing | upper": "using a missing value is an error",
}


def main():
    env = jinja2.Environment(undefined=jinja2.ChainableUndefined, keep_trailing_newline=True)
    rows = []
    for source in VALUES:
        value = env.compile_expression(source, undefined_to_none=False)(**CONTEXT)
        if isinstance(value, jinja2.Undefined):
            value = ""
        rows.append({"template": "{{ %s }}" % source, "expected": json.loads(json.dumps(value, default=list))})
    for source in TEXTS:
        rows.append({"template": source, "expected": env.from_string(source).render(**CONTEXT)})
    for source, why in DIFFERS.items():
        try:
            value = env.compile_expression(source)(**CONTEXT)
        except jinja2.UndefinedError as error:
            value = {"error": str(error)}
        rows.append({"template": "{{ %s }}" % source, "expected": value, "differs": why})
    lines = ",\n".join("    " + json.dumps(row, ensure_ascii=False) for row in rows)
    context = json.dumps(CONTEXT, ensure_ascii=False)
    text = '{\n  "context": %s,\n  "rows": [\n%s\n  ]\n}\n' % (context, lines)
    pathlib.Path(__file__).with_name("table.json").write_text(text)
    print(len(rows), "rows")


main()
