"""The header the API trusts: its formats, its shape, its bounds, and who gets one."""
import base64
import json

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

import harness
from general import grant_of, settings, values

SHAPE = """{who: .user.username, may: .decision.allow, because: .decision.reason, what: .request.resource,
 how: .request.action, only: .decision.filters, where: (.request.path + "?" + .request.query), at: .timestamp}"""


@pytest.fixture(autouse=True)
def clean(recorder, engine):
    recorder.reset()
    engine.reset()
    engine.says({"result": True})


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """{algorithm: (file, public key)}"""
    folder, made = tmp_path_factory.mktemp("keys"), {}
    for name, key in (("RS256", rsa.generate_private_key(public_exponent=65537, key_size=2048)),
                      ("ES256", ec.generate_private_key(ec.SECP256R1()))):
        file = folder / (name + ".pem")
        file.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                           serialization.NoEncryption()))
        made[name] = (str(file), key.public_key())
    return made


@pytest.fixture(scope="module")
def make(module_doorward, recorder, engine, issuer):
    """A daemon for each grant section, started once."""
    kept = {}

    def start(**grant):
        key = json.dumps(grant, sort_keys=True)
        if key not in kept:
            kept[key] = module_doorward(settings(recorder.url, engine.url, issuer, grant=grant,
                                                 decisions={"ttl_s": 60, "deny_ttl_s": 0}))
        else:
            harness.curl(kept[key].admin + "/cache/flush", data=b'{"all":true}')
        return kept[key]
    return start


def test_json(make, recorder, issuer):
    proxy = make()
    assert proxy.curl("/x", authorization=issuer.bearer("damop")).status == 200
    (value,) = values(recorder.last[0], "x-auth-context")
    grant = json.loads(value)
    assert value.isascii() and "\n" not in value
    assert set(grant) == {"user", "policy", "timestamp"}
    assert grant["user"]["username"] == "damop" and grant["user"]["authenticated"] is True
    assert set(grant["policy"]) == {"allow", "decision_id"} and grant["policy"]["allow"] is True


def test_base64url(make, recorder, issuer):
    proxy = make(format="base64url", header="X-Context")
    for user in ("damop", "ann-of-another-length"):
        assert proxy.curl("/x", authorization=issuer.bearer(user)).status == 200
        (value,) = values(recorder.last[0], "x-context")
        assert "=" not in value and "+" not in value and "/" not in value
        assert json.loads(base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)))["user"]["username"] == user
        assert values(recorder.last[0], "x-auth-context") == []
    proxy.curl("/pub/x", "-H", "X-Auth-Context: theirs", "-H", "X-Context: forged")
    assert values(recorder.last[0], "x-auth-context") == ["theirs"], "no longer a name of ours"
    assert values(recorder.last[0], "x-context") == []


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_jws(make, recorder, issuer, keys, algorithm):
    """Verified by another library, by the key set that is published."""
    proxy = make(format="jws", key_file=keys[algorithm][0], issuer="doorward.test")
    assert proxy.curl("/x", authorization=issuer.bearer("damop")).status == 200
    (value,) = values(recorder.last[0], "x-auth-context")
    published = proxy.curl("/.well-known/jwks.json")
    assert published.status == 200 and published.header("content-type").startswith("application/json")
    (row,) = published.json["keys"]
    assert not {"d", "p", "q", "dp", "dq", "qi", "k"} & set(row), "nothing private"
    assert (row["alg"], row["use"]) == (algorithm, "sig")
    head = jwt.get_unverified_header(value)
    assert (head["alg"], head["kid"]) == (algorithm, row["kid"])
    public = jwt.PyJWK(row).key
    said = jwt.decode(value, public, [algorithm], issuer="doorward.test", options={"require": ["exp", "iat", "iss"]})
    assert said["user"]["username"] == "damop" and said["policy"]["allow"] is True
    assert 0 < said["exp"] - said["iat"] <= 60 + 60, "short-lived: as long as the decision is kept, and a little"
    assert public.public_numbers() == keys[algorithm][1].public_numbers()
    with pytest.raises(jwt.InvalidTokenError):
        jwt.decode(value[:-8] + "AAAAAAAA", public, [algorithm])


def test_key_set_only_for_jws(make):
    assert make().curl("/.well-known/jwks.json").status == 200, "without jws the path is a route's, like any"
    assert harness.curl(make().admin + "/.well-known/jwks.json").status == 404


def test_shape(make, recorder, engine, issuer, tmp_path):
    file = tmp_path / "grant.jq"
    file.write_text(SHAPE)
    proxy = make(shape=str(file))
    engine.says({"result": {"allow": True, "reason": "because", "filters": {"a": [1]}}})
    assert proxy.curl("/things/5?q=1", authorization=issuer.bearer("damop")).status == 200
    grant = grant_of(recorder.last[0])
    assert grant.pop("at").endswith("Z")
    assert grant == {"who": "damop", "may": True, "because": "because", "what": "things", "how": "read",
                     "only": {"a": [1]}, "where": "/things/5?q=1"}


@pytest.mark.parametrize("program,code", [
    ("if .user.username == \"damop\" then error(\"no\") else {} end", "grant_failed"),
    ("if .user.username == \"damop\" then [1] else {} end", "grant_failed"),
    ("if .user.username == \"damop\" then empty else {} end", "grant_failed"),
])
def test_failing_shape(make, recorder, issuer, tmp_path, program, code):
    """Our fault, and nothing is forwarded without its grant."""
    file = tmp_path / "grant.jq"
    file.write_text(program)
    proxy = make(shape=str(file))
    answer = proxy.curl("/x", authorization=issuer.bearer("damop"))
    assert (answer.status, answer.json["code"]) == (500, code), answer
    assert recorder.seen == []
    assert proxy.curl("/x", authorization=issuer.bearer("water")).status == 200


def test_too_large_is_500_never_cut(make, recorder, engine):
    proxy = make(max_bytes=600)
    for size, status in ((50, 200), (600, 500), (60000, 500)):
        engine.says({"result": {"allow": True, "filters": {"note": "x" * size}}})
        answer = proxy.curl(f"/x/{size}")
        assert answer.status == status, answer
        if status == 500:
            assert answer.json["code"] == "grant_too_large"
            assert proxy.log(answer.request_id)["level"] == "warn"
    assert len(recorder.seen) == 1 and len(grant_of(recorder.last[0])["filters"]["note"]) == 50


NAMES = ["Müller", "名前", "😀", "a\"b\\c", "line\nbreak\r\nX-Evil: 1", "tab\t", "\x7f", "<&>", "a\u2028b", " spaces "]


@pytest.mark.parametrize("name", NAMES, ids=[ascii(n) for n in NAMES])
def test_odd_names_are_escaped(make, recorder, issuer, name):
    proxy = make()
    token = issuer.token("ann", claims={"preferred_username": name})
    assert proxy.curl("/x", authorization="Bearer " + token).status == 200
    head, _ = recorder.last
    (value,) = values(head, "x-auth-context")
    assert value.isascii() and value.isprintable()
    assert json.loads(value)["user"]["username"] == name
    assert values(head, "x-evil") == []


def test_who_gets_one(make, recorder, engine, issuer):
    proxy = make()
    bearer = issuer.bearer("damop")
    assert proxy.curl("/me/x", authorization=bearer).status == 200
    grant = grant_of(recorder.last[0])
    assert grant["policy"] is None and grant["user"]["username"] == "damop"
    assert engine.questions() == [], "an authenticated route asks nobody"
    assert proxy.curl("/pub/x", authorization=bearer).status == 200
    assert values(recorder.last[0], "x-auth-context") == []
    recorder.reset()
    answer = proxy.curl("/me/x")
    assert (answer.status, answer.json["code"]) == (401, "credential_missing"), "judge or not: nobody is not somebody"
    assert recorder.seen == []
    assert proxy.curl("/x").status == 200
    grant = grant_of(recorder.last[0])
    assert grant["user"]["id"] == "anonymous" and grant["user"]["authenticated"] is False
    assert grant["policy"]["allow"] is True
    engine.says({"result": False})
    recorder.reset()
    assert proxy.curl("/denied").status == 403 and recorder.seen == []


def test_no_grant_header(make, recorder, issuer):
    proxy = make(header="")
    assert proxy.curl("/x", authorization=issuer.bearer("damop")).status == 200
    assert "policy" not in recorder.last[0].decode()
