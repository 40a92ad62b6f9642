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
