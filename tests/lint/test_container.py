"""The container files say the same as the rest of the tree: stages, copied files, packages, ports, health checks."""
import os
import re
import shlex
import shutil
import subprocess

import pytest
import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def stages():
    """[(name, image, [(instruction, rest)])] of the Dockerfile."""
    found = []
    text = re.sub(r"^#.*\n", "", read("Dockerfile"), flags=re.M)
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        if not line.strip():
            continue
        instruction, rest = line.split(None, 1)
        if instruction == "FROM":
            image, _, name = rest.split()
            found.append((name, image, []))
        else:
            found[-1][2].append((instruction, rest))
    return found


def packages(stage):
    for instruction, rest in stage[2]:
        if instruction == "RUN" and "apt-get install" in rest:
            words = rest.split("apt-get install", 1)[1].split("&&")[0].split()
            return {word for word in words if not word.startswith("-")}
    return set()


def compose():
    return yaml.safe_load(read("docker-compose.yml"))


def ignored(path):
    """Whether .dockerignore, which lets in named top-level entries only, keeps a path out."""
    let_in = [line[1:] for line in read(".dockerignore").splitlines() if line.startswith("!")]
    return path.split("/")[0] not in let_in


def test_stages():
    names = [name for name, _, _ in stages()]
    assert names == ["builder", "demo", "runtime"], "the last stage is what `docker build .` gives"
    builder, *others = [image for _, image, _ in stages()]
    assert set(others) == {"debian:trixie-slim"}
    rust = re.search(r'^rust-version = "([\d.]+)"', read("rego/Cargo.toml"), re.M).group(1)
    assert builder == f"rust:{rust}-slim-trixie", "the same Debian, with the Rust that rego/ asks for"


def test_what_is_copied_exists():
    copied = 0
    for _, _, lines in stages():
        for instruction, rest in lines:
            if instruction != "COPY" or "--from=" in rest:
                continue
            for source in shlex.split(rest)[:-1]:
                copied += 1
                assert os.path.exists(os.path.join(ROOT, source)), f"{source} is copied, but is not there"
                assert not ignored(source), f"{source} is copied, but .dockerignore keeps it out"
    assert copied >= 10


def test_the_binary_comes_from_the_preset():
    builder, _, runtime = stages()
    built = " ".join(rest for instruction, rest in builder[2] if instruction == "RUN")
    assert "cmake --preset release" in built
    workdir = dict(builder[2])["WORKDIR"]
    sources = [shlex.split(rest)[1] for instruction, rest in runtime[2] if instruction == "COPY" and "--from=" in rest]
    assert sources == [f"{workdir}/build/release/doorward"]


def test_runtime_is_unprivileged_and_shell_free():
    runtime = stages()[-1][2]
    lines = dict(runtime)
    user = lines["USER"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), "a number, so that runAsNonRoot can be checked"
    after_user = [i for i, _ in runtime[[i for i, _ in runtime].index("USER"):]]
    assert "RUN" not in after_user
    assert lines["ENTRYPOINT"].startswith("["), "no shell in between: signals reach the daemon"
    assert re.search(r'CMD \["doorward", "--probe"\]$', lines["HEALTHCHECK"])
    assert "/etc/doorward" in lines["VOLUME"]


def test_builder_has_what_scripts_deps_installs():
    listed = re.search(r"^packages_build='\n(.*?)'$", read("scripts/deps"), flags=re.M | re.S).group(1)
    wanted = {line.split()[0] for line in listed.splitlines() if line.strip()}
    assert packages(stages()[0]) == wanted | {"libllhttp-dev"}


def test_packages_are_known_to_debian():
    codename = re.search(r"^VERSION_CODENAME=(\w+)", open("/etc/os-release", encoding="utf-8").read(), flags=re.M)
    if not shutil.which("apt-cache") or not codename or codename.group(1) != "trixie":
        pytest.skip("only Debian 13 knows the names of Debian 13's packages")
    for stage in stages():
        for package in packages(stage):
            shown = subprocess.run(["apt-cache", "show", package], capture_output=True, check=False)
            assert shown.returncode == 0, f"{package} is no package of Debian 13"


def test_runtime_has_the_libraries_that_are_linked():
    """Each -dev package of the builder has its library in the runtime stage."""
    builder, _, runtime = stages()
    installed = packages(runtime)
    for package in packages(builder):
        if package.endswith("-dev") and package != "libc6-dev":
            stem = re.match(r"lib[a-z]+", package).group(0)
            assert any(re.match(stem + r"[-\d]", name) for name in installed), f"{package} has no counterpart"


def test_services():
    services = compose()["services"]
    assert set(services) == {"doorward", "opa", "redis", "api", "issuer"}
    for name, service in services.items():
        assert ("image" in service) != ("build" in service), name
        check = service["healthcheck"]["test"]
        assert check[0] == "CMD" and all(isinstance(word, str) for word in check), f"{name}: no shell in health checks"
        for word in service.get("command", []):
            assert isinstance(word, str), f"{name}: {word!r} is not a text"
        if "build" in service:
            assert service["build"]["target"] in [stage[0] for stage in stages()]
        else:
            assert re.search(r":[\w.-]*\d", service["image"]), f"{name}: the image is pinned"


def test_doorward_waits_for_healthy_services():
    services = compose()["services"]
    needs = services["doorward"]["depends_on"]
    assert set(needs) == set(services) - {"doorward"}
    assert all(need == {"condition": "service_healthy"} for need in needs.values())


def test_ports_agree():
    services = compose()["services"]
    settings = services["doorward"]["environment"]
    listen = settings["DOORWARD_LISTEN_ADDRESS"].rsplit(":", 1)[1]
    assert dict(stages()[-1][2])["EXPOSE"].split() == [listen]
    assert services["doorward"]["ports"] == [f"127.0.0.1:{listen}:{listen}"]
    listening = {"redis": {"6379"}}
    for name, service in services.items():
        text = " ".join(service.get("command", []))
        listening.setdefault(name, set()).update(re.findall(r"0\.0\.0\.0:(\d+)", text))
        for port in service.get("ports", []):
            if name != "doorward":
                assert port.rsplit(":", 1)[1] in listening[name]
    for text in settings.values():
        for name, port in re.findall(r"://(\w+):(\d+)", text):
            assert port in listening[name], f"{text}: {name} does not listen on {port}"
    issuer = " ".join(services["api"]["command"])
    assert re.search(r"--issuer (\S+)", issuer).group(1) == settings["OIDC_ISSUER"]
    config = read("config/cwms/doorward.yaml")
    for name in settings:
        assert name.startswith("DOORWARD_") or "${" + name in config, f"{name} is not read by config/cwms/doorward.yaml"


def test_mounts_and_commands_exist():
    for name, service in compose()["services"].items():
        for volume in service.get("volumes", []):
            source, _, mode = volume.split(":")
            assert os.path.exists(os.path.join(ROOT, source)), f"{name}: {source} is mounted, but is not there"
            assert mode == "ro"
        for word in service.get("command", []):
            if word.startswith("/demo/"):
                assert os.path.exists(ROOT + word)
    assert os.path.exists(os.path.join(ROOT, "config/cwms/doorward.yaml")), "what /etc/doorward/doorward.yaml is"


def test_docker_takes_the_compose_file():
    docker = shutil.which("docker")
    if not docker or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker compose is not here")
    done = subprocess.run([docker, "compose", "config", "--quiet"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_scripts_are_posix_and_runnable():
    names = [name for name in os.listdir(os.path.join(ROOT, "scripts"))]
    assert {"deps", "build", "demo", "test"} <= set(names)
    for name in names:
        path = os.path.join(ROOT, "scripts", name)
        if not read(path).startswith("#!/bin/sh") and name != "common.sh":
            continue
        done = subprocess.run(["sh", "-n", path], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert name == "common.sh" or os.access(path, os.X_OK), f"{name} is not executable"
