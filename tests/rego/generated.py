"""Small policies made by chance, of everything that the register machine is given and of some that it is not. The same seed
makes the same ones. Operands are of unknown type wherever OPA would know better and refuse to compile."""
import json
import random

KEYS = ["a", "b", "c", "l", "o", "n"]
VALUES = [1, 2, 0, -1, 1.5, "x", "y", "", "X", True, False, None, [], ["x", 1], [1, "x", None], {}, {"a": 1}, {"a": "x", "b": ["x"]}, [["x"]]]
CONSTANTS = ["1", "2", '"x"', '"y"', "true", "false", "null", "[]", "{}"]
CALLS = ["count({})", "lower({})", "is_string({})", "is_number({})", "is_array({})", "object.get({}, \"a\", 1)", "startswith({}, \"x\")",
         "to_number({})", "sum({})", "concat(\",\", {})", "format_int({}, 10)", "abs({})"]
ORDERS = ["<", "<=", ">", ">="]


class Module:
    def __init__(self, r, name):
        self.r, self.name, self.variables, self.fresh = r, name, [], 0
        self.rules, self.sets, self.values = [], [], []  # all; those that are sets; those that may be anything
        self.functions = 0
        self.lines = [f"package {name}\n"]
        self.made()

    def made(self):
        r = self.r
        for _ in range(r.randrange(5, 9)):
            r.choice([self.a_condition, self.a_condition, self.a_value, self.a_chain, self.a_set, self.a_set, self.a_function])()

    def text(self):
        return "\n".join(self.lines) + "\n"

    # --- expressions

    def reference(self):
        choices = [f"input.{self.r.choice(KEYS)}"] * 4 + self.variables * 3 + self.values
        found = self.r.choice(choices)
        for _ in range(self.r.choice([0, 0, 0, 1, 2])):
            found += self.r.choice([".a", ".b", "[0]", "[1]", '["a"]'] + [f"[{name}]" for name in self.variables])
        return found

    def expression(self, depth=0):
        r = self.r
        if depth > 1 or r.random() < 0.45:
            return self.reference()
        inner = lambda: self.expression(depth + 1)  # noqa: E731
        kinds = [
            lambda: r.choice(CONSTANTS), lambda: f"[{inner()}, {inner()}]", lambda: f"{{{inner()}, {inner()}}}",
            lambda: f'{{"a": {inner()}, "b": {inner()}}}', lambda: r.choice(CALLS).format(self.reference()),
            lambda: f"({self.reference()} {r.choice('+-*/')} {self.reference()})", lambda: f"({inner()} in {self.collection()})",
            lambda: f"f{r.randrange(self.functions)}({inner()})" if self.functions else self.reference(),
            lambda: f"({self.reference()} == {inner()})"]
        if r.random() < 0.05:
            return f"[x | some x in {self.collection()}; x != 1]"
        return r.choice(kinds)()

    def collection(self):
        r = self.r
        return r.choice([self.reference(), self.reference(), r.choice(self.sets or ["input.l"]), '["x", 1, null]', '{"x", "y"}',
                         f"{{{self.reference()}, 1}}", f"[{self.reference()}, \"x\"]", '{"a": "x", "b": 1}'])

    # --- bodies

    def statement(self):
        r = self.r
        compared = r.choice([  # sets and objects have another order in OPA: docs/rego.md
            lambda: f"{self.reference()} {r.choice(['==', '!='])} {self.expression(1)}",
            lambda: f"input.{r.choice(KEYS)} {r.choice(ORDERS)} {r.choice(['input.a', 'input.o.a', 'input.l[0]', *CONSTANTS])}"])
        member = lambda: f"{self.expression(1)} in {self.collection()}"  # noqa: E731
        called = lambda: r.choice(CALLS).format(self.reference())  # noqa: E731
        condition = r.choice([compared, compared, member, called, self.reference, lambda: r.choice(self.rules or ["input.a"]),
                              lambda: f"f{r.randrange(self.functions)}({self.reference()})" if self.functions else "input.b"])()
        kind = r.random()
        if kind < 0.5:
            return [condition]
        if kind < 0.72:
            return ["not " + condition]
        if kind < 0.82:
            value = self.expression()
            return [f"{self.variable()} := {value}"]
        if kind < 0.94:
            collection = self.collection()
            pair = r.random() < 0.3
            names = [self.variable() for _ in range(2 if pair else 1)]
            return [f"some {', '.join(names)} in {collection}"]
        domain, before = self.collection(), list(self.variables)
        name = self.variable()
        inside = r.choice([f"{name} != {self.reference()}", f"is_string({name})", f"not {name} == {self.reference()}", f"{name} in {self.collection()}"])
        self.variables = before
        return [f"every {name} in {domain} {{ {inside} }}"]

    def variable(self):
        self.fresh += 1
        self.variables.append(f"v{self.fresh}")
        return self.variables[-1]

    def body(self, variables=()):
        """Its text; self.variables are then those that it binds."""
        self.variables = list(variables)
        found = []
        for _ in range(self.r.randrange(1, 5)):
            found += self.statement()
        return "{\n\t" + "\n\t".join(found) + "\n}"

    # --- rules

    def next(self):
        return f"r{len(self.rules)}"

    def closed(self, expression):
        """Without variables, for a value outside of a body."""
        self.variables = []
        return expression()

    def a_condition(self):
        name, value = self.next(), self.r.choice(["", "", " := " + self.r.choice(CONSTANTS)])
        for _ in range(self.r.choice([1, 1, 2, 3])):
            self.lines.append(f"{name}{value} if {self.body()}\n")
        if self.r.random() < 0.3:
            self.lines.append(f"default {name} := {self.r.choice(CONSTANTS)}\n")
        self.rules.append(name)

    def a_value(self):
        name, body = self.next(), self.body()
        self.lines.append(f"{name} := {self.expression()} if {body}\n")
        if self.r.random() < 0.2:
            self.lines.append(f"{name} := {self.closed(self.expression)} if {self.closed(self.reference)}\n")
        self.rules.append(name)
        self.values.append(name)

    def a_chain(self):
        name, body = self.next(), self.body()
        text = f"{name} := {self.expression()} if {body}"
        for _ in range(self.r.choice([1, 1, 2])):
            body = self.body()
            text += f" else := {self.expression()} if {body}"
        if self.r.random() < 0.5:
            text += f" else := {self.closed(self.reference)}"
        self.lines.append(text + "\n")
        self.rules.append(name)
        self.values.append(name)

    def a_set(self):
        name = self.next()
        for _ in range(self.r.choice([1, 2, 2, 3])):
            if self.r.random() < 0.2:
                self.lines.append(f"{name} contains {self.closed(self.expression)}\n")
            else:
                body = self.body()
                self.lines.append(f"{name} contains {self.expression()} if {body}\n")
        self.rules.append(name)
        self.sets.append(name)

    def a_function(self):
        name = f"f{self.functions}"
        for _ in range(self.r.choice([1, 1, 1, 2])):
            if self.r.random() < 0.5:
                self.lines.append(f"{name}(p) if {self.body(['p'])}\n")
            else:
                body = self.body(["p"])
                self.lines.append(f"{name}(p) := {self.expression()} if {body}\n")
        self.functions += 1


def policies(seed, n):
    """[(name of the package, text, names of the rules)]"""
    r = random.Random(seed)
    made = [Module(r, f"g{i}") for i in range(n)]
    return [(one.name, one.text(), one.rules) for one in made]


def inputs(seed, n):
    r = random.Random(seed)
    return [json.dumps({key: r.choice(VALUES) for key in KEYS if r.random() < 0.75}) for _ in range(n)]


class Loose(Module):
    """What only the interpreter evaluates. Names are never used twice: what OPA takes of that is refused here."""

    def __init__(self, r, name):
        self.depth, self.objects, self.other = 0, [], f"{name}_other"
        self.helper = f"package {self.other}\n"
        super().__init__(r, name)

    def made(self):
        r = self.r
        if r.random() < 0.4:
            self.an_other_package()
        for _ in range(r.randrange(3, 6)):
            r.choice([self.a_condition, self.a_condition, self.a_value, self.a_chain, self.a_set, self.a_set, self.a_function,
                      self.an_object, self.an_object, self.several])()

    def an_other_package(self):
        r, keep = self.r, list(self.lines)
        self.lines = []
        self.a_set()
        self.a_value()
        self.an_object()
        self.helper += "\n" + "\n".join(self.lines)
        self.rules, self.sets, self.values, self.objects = [], [], [], []
        self.lines = keep
        where = r.choice([f"data.{self.other}", "theirs", self.other])
        if where == "theirs":
            self.lines.append(f"import data.{self.other} as theirs\n")
        elif where == self.other:
            self.lines.append(f"import data.{self.other}\n")
        self.values += [f"{where}.r1", f"{where}.r1"]
        self.sets.append(f"{where}.r0")
        self.objects.append(f"{where}.r2")

    # --- expressions

    def reference(self):
        r = self.r
        found = r.choice([f"input.{r.choice(KEYS)}"] * 4 + ["input.o", "input.l", "input.m"] + self.variables * 3 + self.values + self.objects)
        for _ in range(r.choice([0, 0, 0, 1, 1, 2] if found.startswith("input") else [0, 0, 0, 0, 0, 1])):
            found += r.choice([".a", ".b", "[0]", '["a"]', "[1]"] + [f"[{name}]" for name in self.variables])
        return found

    def running(self):
        """A reference with a variable that runs."""
        r = self.r
        base = r.choice([f"input.{r.choice(['l', 'o', 'm', 'm', 'a'])}"] + [self.reference()] + self.sets + self.objects)
        return f"{base}[{self.any()}]" + r.choice(["", "", ".a", ".b", "[0]", "[_]"])

    def any(self):
        return self.variable() if self.r.random() < 0.4 else "_"

    def collection(self):
        r = self.r
        if self.depth < 2 and r.random() < 0.15:
            return self.comprehension()
        return r.choice(["input.l", "input.o", "input.m", "input.l", "input.m", self.reference(), r.choice((self.sets + self.objects) or ["input.l"]), '["x", 1, null]', '{"x", "y"}',
                         f"{{{self.reference()}, 1}}", f"[{self.reference()}, \"x\"]", '{"a": "x", "b": 1}'])

    def comprehension(self):
        r, before = self.r, list(self.variables)
        self.depth += 1
        body = "; ".join(self.statements(r.choice([1, 1, 2, 3])))
        value = lambda: self.expression(1)  # noqa: E731
        kind = r.choice("[{:")
        found = f"[{value()} | {body}]" if kind == "[" else f"{{{value()} | {body}}}" if kind == "{" else f"{{{self.reference()}: {value()} | {body}}}"
        self.depth -= 1
        self.variables = before
        return found

    def of_sets(self):
        r = self.r
        one = lambda: r.choice([*self.sets, f"{{{self.reference()}, 1}}", '{"x", 1}', "set()", f"{{x{self.next_fresh()} | x{self.fresh} := {self.reference()}}}"])  # noqa: E731
        return f"({one()} {r.choice('|&-')} {one()})"

    def next_fresh(self):
        self.fresh += 1
        return self.fresh

    def expression(self, depth=0):
        r = self.r
        kind = r.random()
        if depth <= 1 and self.depth < 2 and kind < 0.12:
            return self.comprehension()
        if kind < 0.16:
            return self.of_sets()
        if kind < 0.20:
            return f"object.get({self.reference()}, {r.choice(['[]', self.list_of('a'), self.list_of(0), self.reference()])}, {self.reference()})"
        if kind < 0.24:
            return f"({self.reference()}, {self.reference()} in {self.collection()})"
        if kind < 0.32 and self.functions:
            return self.call()
        kinds = [
            lambda: r.choice(CONSTANTS), lambda: f"[{self.expression(depth + 1)}, {self.reference()}]", lambda: f"{{{self.expression(depth + 1)}, {self.reference()}}}",
            lambda: f'{{"a": {self.expression(depth + 1)}, "b": {self.reference()}}}', lambda: r.choice(CALLS).format(self.reference()),
            lambda: f"({self.reference()} in {self.collection()})", lambda: f"({self.reference()} {r.choice(['==', '!='])} {self.reference()})"]
        return r.choice(kinds)() if depth < 2 and kind < 0.6 else self.reference()

    def list_of(self, key):
        return json.dumps([key, self.r.choice(["a", "b", 0])])

    def call(self):
        return f"f{self.r.randrange(self.functions)}({self.expression(2)}, {self.r.choice([self.reference(), self.reference(), *CONSTANTS])})"

    # --- bodies

    def condition(self):
        r = self.r
        return r.choice([
            lambda: f"{self.reference()} {r.choice(['==', '!='])} {self.expression(1)}",
            lambda: f"{self.expression(1)} in {self.collection()}",
            lambda: f"{self.reference()}, {self.expression(1)} in {self.collection()}",
            lambda: r.choice(CALLS).format(self.reference()),
            self.reference,
            lambda: r.choice((self.rules + self.values) or ["input.a"]),
            lambda: f"count({self.comprehension()}) {r.choice(['>', '=='])} {r.choice('012')}" if self.depth < 2 else "input.b",
            lambda: f"{r.choice((self.sets + self.objects) or ['input.o'])}[{self.reference()}]",
            lambda: self.call() if self.functions else "input.a",
            lambda: f"{self.reference()} = {self.reference()}",
        ])()

    def statements(self, n):
        found = []
        for _ in range(n):
            found += self.statement()
        if self.r.random() < 0.7 and not any(":=" in one or one.startswith("some ") for one in found):
            self.r.shuffle(found)  # the order does not matter
        return found

    def statement(self):
        r = self.r
        kind = r.random()
        if kind < 0.22:
            return [self.condition()]
        if kind < 0.36:
            return ["not " + self.condition()]
        if kind < 0.44:
            value = self.expression()
            return [f"{self.variable()} := {value}"]
        if kind < 0.54:
            collection = self.collection()
            return self.used(collection, "some {} in {}")
        if kind < 0.60:
            return [r.choice(["{}", "{} == " + self.expression(1), "{} != " + self.reference(), "is_string({})", "{} = " + self.reference()]).replace("{}", self.running(), 1)]
        if kind < 0.65:
            name = self.variable()
            return [f"some {name}", f"{r.choice(['input.l', 'input.o', 'input.m', *self.sets, *self.objects])}[{name}] == {self.expression(1)}"]
        if kind < 0.68:
            value = self.running()
            return [f"{self.variable()} {r.choice([':=', '='])} {value}"]
        if kind < 0.76:
            return self.unified()
        if kind < 0.80:
            return self.replaced()
        if kind < 0.83 and self.depth < 2:
            value = self.reference()
            if self.functions and r.random() < 0.3:
                call = self.call()
                return [f"{call[:-1]}, {self.variable()})"]
            if r.random() < 0.3:
                return [f"{r.choice(['lower', 'count', 'sum'])}({value}, {self.variable()})"]
            return [f"walk({value}, [{self.any()}, {self.variable()}])"]
        if kind < 0.90 and self.depth < 2:
            return self.every()
        return [self.condition()]

    def unified(self):
        r = self.r
        kind = r.randrange(6)
        value, more = self.expression(1), self.reference()
        if kind == 0:
            return [f"{self.variable()} = {value}"]
        if kind == 1:
            return [f"[{self.variable()}, {self.variable()}] {r.choice([':=', '='])} {more}"]
        if kind == 2:
            return [f"[{self.variable()}, {r.choice([*CONSTANTS, self.reference()])}] = {more}"]
        if kind == 3:
            return [f"[{self.variable()}, {r.choice(['1', more])}] = [{value}, {self.any()}]"]
        if kind == 4:
            return [f"{value} = {more}"]
        other = self.reference()
        return [f"[{self.variable()}, [{self.variable()}, _]] = [{more}, {other}]"]

    def replaced(self):
        """`with`"""
        r = self.r
        at = r.choice(["input.a", "input.l", "input.o.a", "input.n", "input.o", "input", "data.d", "data.d.x", *(v for v in self.values + self.sets if not v.startswith("theirs"))])
        value = self.reference() if at != "input" else "{" + f'"a": {self.reference()}, "l": {self.collection()}' + "}"
        withs = f"with {at} as {value}"
        if r.random() < 0.2:
            withs += f" with input.b as {r.choice(CONSTANTS)}"
        if r.random() < 0.3:
            return [f"not {self.condition()} {withs}"]
        if r.random() < 0.4:
            inner = r.choice((self.rules + self.values) or ["input.a"])
            return [f"{self.variable()} := {inner} {withs}"]
        return [f"{self.condition()} {withs}"]

    def every(self):
        r = self.r
        domain, before = self.collection(), list(self.variables)
        self.depth += 1
        head, *inside = self.used(domain, "every {} in {}")
        inside += self.statements(r.choice([0, 0, 1, 2]))
        self.depth -= 1
        self.variables = before
        return [f"{head} {{ {'; '.join(inside)} }}"]

    def used(self, collection, form):
        """OPA refuses variables that are never used."""
        r, name = self.r, self.variable()
        names = r.choice([name, name, f"_, {name}", f"{name}, _", "pair"])
        using = []
        if names == "pair":
            other = self.variable()
            names, using = f"{name}, {other}", [f"{self.reference()}[{name}] == {other}"]
        else:
            using = [r.choice([f"{name} != {self.reference()}", f"{name} == {self.reference()}", f"is_string({name})", f"not {name} == {self.reference()}",
                               f"not {self.reference()}[{name}]", f"{self.reference()}[{name}]", f"{name} in {self.collection()}", f"not {name} in {self.collection()}",
                               f"{name} != {r.choice(CONSTANTS)}", f"{name} != {r.choice(CONSTANTS)}"])]
        return [form.format(names, collection), *using]

    def body(self, variables=()):
        self.variables = list(variables)
        return "{\n\t" + "\n\t".join(self.statements(self.r.randrange(1, 4))) + "\n}"

    # --- rules

    def an_object(self):
        name = self.next()
        for _ in range(self.r.choice([1, 1, 2])):
            body = self.body()
            key = self.r.choice([*self.variables, *self.variables, self.reference(), '"a"'])
            head = self.r.choice([f"{name}[{key}] := "] * 3 + [f"{name}[{key}].b := ", f"{name}[{key}][{self.reference()}] := ", f"{name}[{key}] contains "])
            self.lines.append(f"{head}{self.expression()} if {body}\n")
        self.rules.append(name)
        self.objects.append(name)

    def several(self):
        """Of more than one value: an error when two are there."""
        name = self.next()
        for _ in range(self.r.choice([2, 2, 3])):
            body = self.body()
            self.lines.append(f"{name} := {self.r.choice([*CONSTANTS, self.expression()])} if {body}\n")
        if self.r.random() < 0.3:
            self.lines.append(f"default {name} := {self.r.choice(CONSTANTS)}\n")
        self.rules.append(name)
        self.values.append(name)

    def a_function(self):
        name = f"f{self.functions}"
        for _ in range(self.r.choice([1, 2, 2, 3])):
            second = self.r.choice(["q", "q", *CONSTANTS[:6], "[q, s]", "[q, 1]", "_"])
            names = ["p"] + [one for one in "qs" if one in second]
            if self.r.random() < 0.3:
                self.lines.append(f"{name}(p, {second}) if {self.body(names)}\n")
            else:
                body = self.body(names)
                self.lines.append(f"{name}(p, {second}) := {self.expression()} if {body}\n")
        if self.r.random() < 0.15:
            self.lines.append(f"default {name}(_, _) := {self.r.choice(CONSTANTS)}\n")
        self.functions += 1


def loose_policies(seed, n):
    """[(name of the package, texts, names of the rules)]"""
    r = random.Random(seed)
    made = [Loose(r, f"g{i}") for i in range(n)]
    return [(one.name, [one.text(), one.helper], one.rules) for one in made]


SHAPES = {"l": [[], ["x"], ["x", 1], [1, "x", None], [["x", 1], ["y", "x"]], [{"a": 1}, {"b": "x"}, {"a": "x", "b": ["x"]}]],
          "o": [{}, {"a": 1}, {"a": "x", "b": "y"}, {"a": ["x", 1], "x": True}, {"a": {"a": "x"}, "b": False}],
          "m": [[{"a": 1}, {"a": 2, "b": "x"}], [["x", 1], "x"], {"x": {"a": "y"}, "y": {"b": 1}}, {"a": {"a": "a"}, "b": {"a": []}}]}


def loose_inputs(seed, n):
    """As `inputs`, with collections where the policies look for some: over what is none the evaluation fails."""
    r = random.Random(seed)
    found = [{key: r.choice(VALUES) for key in KEYS if r.random() < 0.75} for _ in range(n)]
    return [json.dumps({**one, **{key: r.choice(values) for key, values in SHAPES.items() if r.random() < 0.92}}) for one in found]
