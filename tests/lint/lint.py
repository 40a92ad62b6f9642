"""The house rules that a machine can check, over src/ and include/ (lengths over the C tests too).

Each rule is a function that takes a Tree and yields complaints, "path:line: what is wrong". test_lint.py runs each as
a test of its own and tries each on a small tree that breaks it. By hand: python3 tests/lint/lint.py [root]
"""

import fnmatch
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

# A room and what it may include besides itself; main.c may include all. proxy/ stands on top.
ROOMS = {
    "base": [],
    "conf": ["base"],
    "io": ["base"],
    "http": ["base"],
    "remote": ["base", "io"],
    "authz": ["base", "io", "remote"],
    "proxy": ["base", "conf", "io", "http", "remote", "authz"],
}

# A foreign header and the files that are its door. The first pattern that matches the header decides.
DOORS = [
    ("uv.h", ["include/io/*", "src/io/*", "include/remote/*", "src/remote/*", "src/main.c"]),
    ("llhttp.h", ["src/http/parser.c"]),
    ("hiredis/*", ["src/remote/redis*.c"]),
    ("curl/*", ["src/remote/fetch*.c", "include/remote/fetch_multi.h"]),
    ("rego.h", ["src/authz/rego_engine.c"]),
    ("jwt.h", ["src/authz/grant.c"]),
    ("j[qv].h", ["src/authz/shape.c"]),
    # Comparing in constant time and wiping, where secrets are compared and wiped.
    ("openssl/crypto.h", ["src/authz/*.c", "src/io/tls*.c", "src/proxy/own.c", "src/proxy/admin.c"]),
    # The words for what is wrong with a certificate.
    ("openssl/x509_vfy.h", ["src/io/tls*.c", "src/remote/fetch_tls.c"]),
    ("openssl/*", ["src/authz/token*.c", "src/authz/jwk*.c", "src/authz/signature*.c", "src/authz/signing_key.c", "src/authz/stand_in.c",
                   "src/authz/decision*.c", "src/authz/grant.c", "src/authz/identity.c", "src/authz/digest.c",
                   "src/io/tls*.c"]),
    ("jansson.h", ["src/conf/*.c", "src/authz/*.c", "src/proxy/*.c"]),
    ("yaml.h", ["src/conf/*.c"]),
]
# Files that hold nothing but steps: declared by the step table in proxy/request.h.
STEP_FILES = {f"src/proxy/{name}.c": "proxy/request.h" for name in ("access", "forward", "route")}
VERSION_FILES = ["src/main.c", "src/proxy/version.c"]  # --version names every library

LIBC = set("""alloca assert ctype dirent dlfcn endian errno fcntl fenv float fnmatch getopt glob grp ifaddrs inttypes
    iso646 langinfo libgen limits locale malloc math mqueue netdb poll pthread pwd regex sched search semaphore setjmp
    signal spawn stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string strings syslog termios
    time uchar unistd utime wchar wctype""".split())
LIBC_FOLDERS = ("sys/", "arpa/", "net/", "netinet/", "linux/")

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 80
MODULES = ["libuv", "hiredis", "jansson", "yaml-0.1", "libcurl", "libssl", "libcrypto", "libjwt"]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


class Tree:
    def __init__(self, root):
        self.root = Path(root)
        self.lines_of = {}

    def files(self, *patterns):
        """Paths below the root that match, as text, sorted."""
        found = {p.relative_to(self.root).as_posix() for pattern in patterns for p in self.root.glob(pattern)}
        return sorted(found)

    def house(self):
        return self.files("src/**/*.[ch]", "include/**/*.h", "include/**/*.def", "src/**/*.def")

    def c_tests(self):
        return self.files("tests/**/*.[ch]", "bench/**/*.[ch]")

    def lines(self, path):
        if path not in self.lines_of:
            self.lines_of[path] = (self.root / path).read_text(encoding="utf-8").split("\n")
        return self.lines_of[path]

    def includes(self, path):
        """(line number, is a system include, name) of each include line."""
        for number, line in enumerate(self.lines(path), 1):
            match = INCLUDE.match(line)
            if match:
                yield number, match[1] == "<", match[2]


def room_of(path):
    """The room a file is in; None for src/main.c and what stands in no room."""
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] in ("src", "include") else None


def one_of(path, patterns):
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


def rooms(tree):
    """Includes point down, and each names its room."""
    for path in tree.house():
        room = room_of(path)
        if room not in ROOMS and path != "src/main.c":
            yield f"{path}:1: stands in no room"
            continue
        allowed = list(ROOMS) if room is None else [room, *ROOMS[room]]
        for line, system, name in tree.includes(path):
            target = name.split("/")[0] if "/" in name else None
            if system and target in ROOMS:
                yield f'{path}:{line}: <{name}> is ours: "{name}"'
            elif not system and target not in ROOMS:
                yield f'{path}:{line}: "{name}" does not name its room'
            elif not system and target not in allowed:
                yield f'{path}:{line}: "{name}": {room}/ may not include {target}/'
            elif not system and not any((tree.root / top / name).is_file() for top in ("include", "src")):
                yield f'{path}:{line}: "{name}" is not there'


def doors(tree):
    """A foreign library comes in by its door only."""
    for path in tree.house():
        for line, system, name in tree.includes(path):
            if not system or (name.endswith(".h") and (name[:-2] in LIBC or name.startswith(LIBC_FOLDERS))):
                continue
            patterns = next((files for header, files in DOORS if fnmatch.fnmatchcase(name, header)), None)
            if patterns is None:
                if name.split("/")[0] not in ROOMS:
                    yield f"{path}:{line}: <{name}> has no door"
            elif not one_of(path, patterns + VERSION_FILES):
                yield f"{path}:{line}: <{name}> does not come in here, but in {', '.join(patterns)}"


def file_lengths(tree):
    """No file has more than 500 lines."""
    for path in tree.house() + tree.c_tests():
        lines = tree.lines(path)
        count = len(lines) - (lines[-1] == "")
        if count > FILE_LINES_MAX:
            yield f"{path}:{count}: {count} lines, {FILE_LINES_MAX} may be"


def function_lengths(tree):
    """No function has more than 80 lines, from its first line to its brace."""
    for path in tree.house() + tree.c_tests():
        lines = tree.lines(path)
        for number, line in enumerate(lines):
            if line != "{":
                continue
            first = number
            while first > 0 and lines[first - 1].strip() and not lines[first - 1].rstrip().endswith(("}", ";", "*/")):
                first -= 1
            last = number
            while last < len(lines) - 1 and lines[last] != "}":
                last += 1
            length = last - first + 1
            if length > FUNCTION_LINES_MAX:
                yield f"{path}:{first + 1}: a function of {length} lines, {FUNCTION_LINES_MAX} may be"


def opening_comments(tree):
    """Each file opens by saying what it is."""
    for path in tree.house() + tree.c_tests():
        if not tree.lines(path)[0].startswith("/* "):
            yield f"{path}:1: does not open with a comment"


def own_header(tree):
    """Each source has its header, and includes it first."""
    for path in tree.files("src/**/*.c"):
        if path == "src/main.c":
            continue
        own = STEP_FILES.get(path, path[len("src/"):-len("c")] + "h")
        if not (tree.root / "include" / own).is_file():
            yield f"{path}:1: has no header include/{own}"
            continue
        first = next(((line, name) for line, _, name in tree.includes(path)), (1, None))
        if first[1] != own:
            yield f'{path}:{first[0]}: "{own}" does not come first'


def guards(tree):
    """The guard of include/room/name.h is ROOM_NAME_H."""
    for path in tree.files("include/**/*.h"):
        guard = re.sub(r"[/.]", "_", path[len("include/"):]).upper()
        directives = [line.split() for line in tree.lines(path) if line.startswith("#")]
        if directives[:2] != [["#ifndef", guard], ["#define", guard]] or directives[-1][0] != "#endif":
            yield f"{path}:1: is not guarded by {guard}"


def no_struct_typedefs(tree):
    """A struct is called a struct."""
    for path in tree.house():
        for number, line in enumerate(tree.lines(path), 1):
            if re.match(r"\s*typedef\s+(struct|union|enum)\b", line):
                yield f"{path}:{number}: typedef of a struct, union or enum"


def warning_flags(root):
    """The warnings that the build asks for, read from the build itself so that they cannot drift apart."""
    text = (Path(root) / "CMakeLists.txt").read_text(encoding="utf-8")
    block = re.search(r"target_compile_options\(doorward_flags INTERFACE\s+(-Wall[^)]*)\)", text)
    return block[1].split()


def header_flags(root):
    flags = ["-std=c11", "-D_GNU_SOURCE", f"-I{Path(root) / 'include'}", *warning_flags(root), "-Werror"]
    for module in MODULES:
        answer = subprocess.run(["pkg-config", "--cflags", module], capture_output=True, text=True)
        flags += answer.stdout.split()
    return flags


def headers_alone(tree, flags=None):
    """Each header compiles alone, and twice in one file."""
    compiler = os.environ.get("CC") or shutil.which("cc") or "gcc"
    flags = flags or header_flags(tree.root)
    for path in tree.files("include/**/*.h"):
        text = f'#include "{path[len("include/"):]}"\n' * 2
        answer = subprocess.run([*compiler.split(), *flags, "-fsyntax-only", "-x", "c", "-"], input=text,
                                capture_output=True, text=True)
        if answer.returncode != 0:
            yield f"{path}:1: does not compile alone:\n{answer.stderr}"


RULES = [rooms, doors, file_lengths, function_lengths, opening_comments, own_header, guards, no_struct_typedefs,
         headers_alone]


def main():
    tree = Tree(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2])
    complaints = [complaint for rule in RULES for complaint in rule(tree)]
    print("\n".join(complaints) or "nothing to complain about")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
