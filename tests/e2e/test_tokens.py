"""Credentials against a real issuer: which are let in, what the others are told, and what becomes of them when keys
change, vanish or cannot be had."""
import base64
import concurrent.futures
import json
import threading
import time

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

import harness
from peers import demo_issuer
from general import settings

SECRET = "a shared secret of more than thirty-two bytes"
MADE = "https://issuer.test/made"
SHARED = "https://issuer.test/shared"
INVALID = 'Bearer error="invalid_token", error_description="The access token is not valid"'


class Made:
    """Keys of all kinds and tokens of PyJWT: another implementation than ours and the demo's."""

    def __init__(self):
        rsa_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        curves = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}
        self.keys = {a: rsa_key for a in ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")}
        self.keys.update({a: ec.generate_private_key(c()) for a, c in curves.items()})
        self.keys["EdDSA"] = ed25519.Ed25519PrivateKey.generate()

    def key_set(self):
        rows = [{**as_jwk("RS256", self.keys["RS256"]), "kid": "rsa"}]
        rows += [{**as_jwk(a, self.keys[a]), "kid": a, "alg": a} for a in ("ES256", "ES384", "ES512", "EdDSA")]
        rows.append({"kty": "oct", "k": "c2VjcmV0", "kid": "oct"})
        return {"keys": rows}

    def token(self, algorithm, header=None, key=None, **claims):
        now = int(time.time())
        said = {"iss": MADE, "aud": "cwms", "sub": "ann", "iat": now, "exp": now + 60, **claims}
        kid = "rsa" if algorithm[:2] in ("RS", "PS") else algorithm
        return jwt.encode({k: v for k, v in said.items() if v is not None}, key or self.keys[algorithm], algorithm,
                          {"kid": kid, **(header or {})})


def as_jwk(algorithm, key):
    public = key.public_key()
    if algorithm == "EdDSA":
        return {"kty": "OKP", "crv": "Ed25519", "x": b64(public.public_bytes(Encoding.Raw, PublicFormat.Raw))}
    numbers = public.public_numbers()
    if algorithm == "RS256":
        return {"kty": "RSA", "n": b64(numbers.n.to_bytes(256, "big")), "e": "AQAB"}
    size = (numbers.curve.key_size + 7) // 8  # RFC 7518 6.2.1.2: as long as the curve says, zeros in front
    return {"kty": "EC", "crv": "P-%d" % numbers.curve.key_size, "x": b64(numbers.x.to_bytes(size, "big")),
            "y": b64(numbers.y.to_bytes(size, "big"))}


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@pytest.fixture(scope="module")
def made():
    return Made()


@pytest.fixture(scope="module")
def running(module_doorward, recorder, engine, issuer, made, tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    keys.write_text(json.dumps(made.key_set()))
    config = settings(recorder.url, engine.url, issuer, tokens={"anonymous": "refuse"})
    config["tokens"]["issuers"] += [
        {"issuer": MADE, "jwks_file": str(keys), "audiences": ["cwms", "other"],
         "algorithms": ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]},
        {"issuer": SHARED, "secret": SECRET, "audiences": ["cwms"]}]
    return module_doorward(config)


@pytest.fixture
def proxy(running, recorder):
    recorder.reset()
    return running


def check_401(proxy, recorder, answer, reason):
    assert answer.status == 401, answer
    assert answer.json["code"] == reason
    assert answer.header("www-authenticate") == ("Bearer" if reason == "credential_missing" else INVALID)
    assert proxy.log(answer.request_id)["reason"] == reason
    assert recorder.seen == []


FLAWS = [("expired", "token_expired"), ("not_yet", "token_not_yet_valid"), ("audience", "token_audience"),
         ("issuer", "token_issuer"), ("key", "token_signature"), ("signature", "token_signature"),
         ("none", "token_algorithm"), ("hs256", "token_algorithm")]


@pytest.mark.parametrize("flaw,reason", FLAWS)
@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_flaws(proxy, recorder, issuer, flaw, reason, algorithm):
    check_401(
    proxy,
    recorder,
    proxy.curl(
        "/x",
        authorization=issuer.bearer(
            "damop",
            flaw=flaw,
            algorithm=algorithm)),
             reason)


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512",
                                       "EdDSA"])
def test_algorithms(proxy, recorder, made, algorithm):
    """Good with its own key; the same token with a byte of its signature, payload or header changed is not."""
    token = made.token(algorithm)
    answer = proxy.curl("/x", authorization="Bearer " + token)
    assert answer.status == 200, answer
    line = proxy.log(answer.request_id)
    assert (line["issuer"], line["subject"]) == (MADE, "ann")
    recorder.reset()
    parts = token.split(".")
    for i in (1, 2):
        wrong = list(parts)
        wrong[i] = wrong[i][:20] + ("A" if wrong[i][20] != "A" else "B") + wrong[i][21:]
        assert proxy.curl("/x", authorization="Bearer " + ".".join(wrong)).status == 401
    assert recorder.seen == []


@pytest.mark.parametrize("algorithm,other", [("RS256", "RS512"), ("ES256", "EdDSA"), ("PS256", "RS256")])
def test_a_token_says_not_how_it_is_verified(proxy, recorder, made, algorithm, other):
    token = made.token(algorithm)
    head, rest = token.split(".", 1)
    fields = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    fields["alg"] = other
    assert proxy.curl("/x", authorization=f"Bearer {b64(json.dumps(fields).encode())}.{rest}").status == 401
    assert recorder.seen == []


def test_shared_secret(proxy, recorder):
    now = int(time.time())
    said = {"iss": SHARED, "aud": "cwms", "sub": "ann", "exp": now + 60}
    assert proxy.curl("/x", authorization="Bearer " + jwt.encode(said, SECRET, "HS256")).status == 200
    recorder.reset()
    for token in (jwt.encode(said, SECRET + "x", "HS256"), jwt.encode(said, SECRET, "HS512"), jwt.encode(said, "",
        "HS256"),
                  jwt.encode({**said, "iss": MADE}, SECRET, "HS256")):
        assert proxy.curl("/x", authorization="Bearer " + token).status == 401
    assert recorder.seen == []


class At(float):
    """Seconds from the moment the token is made."""


@pytest.mark.parametrize("claims,reason", [
    ({"exp": None}, "token_claims"), ({"exp": "later"}, "token_claims"), ({"exp": "1999999999"}, "token_claims"),
    ({"exp": At(-60)}, "token_expired"), ({"exp": At(-5)}, None), ({"exp": At(600.5)}, None),
    ({"nbf": At(60)}, "token_not_yet_valid"), ({"nbf": At(300)}, "token_not_yet_valid"), ({"nbf": "x"}, "token_claims"),
    ({"iat": At(600)}, "token_not_yet_valid"), ({"iat": "x"}, "token_claims"),
    ({"aud": None}, "token_audience"), ({"aud": ["a", "b"]}, "token_audience"), ({"aud": ["a", "other"]}, None),
    ({"aud": "CWMS"}, "token_audience"), ({"aud": ""}, "token_audience"), ({"aud": 5}, "token_audience"),
    ({"aud": []}, "token_audience"), ({"iss": None}, "token_issuer"), ({"iss": MADE + "/"}, "token_issuer"),
    ({"iss": MADE.upper()}, "token_issuer"), ({"iss": [MADE]}, "token_issuer"),
    ({"sub": None}, "token_subject"), ({"sub": ""}, "token_subject"), ({"sub": 5}, "token_subject"),
])
def test_claims(proxy, recorder, made, claims, reason):
    said = {"iss": MADE, "aud": "cwms", "sub": "ann", "exp": At(60), **claims}
    said = {k: v + int(time.time()) if isinstance(v, At) else v for k, v in said.items() if v is not None}
    token = jwt.api_jws.encode(json.dumps(said).encode(), made.keys["ES256"], "ES256", {"kid": "ES256"})
    answer = proxy.curl("/x", authorization="Bearer " + token)
    if reason is None:
        assert answer.status == 200, answer
    else:
        check_401(proxy, recorder, answer, reason)


@pytest.mark.parametrize("header", [
    {"crit": ["exp"]}, {"crit": []}, {"b64": False, "crit": ["b64"]}, {
        "jwk": {"kty": "RSA"}}, {"jku": "http://evil.test"},
    {"x5u": "http://evil.test"}, {"kid": "nobody"}, {"kid": 5},
])
def test_headers_of_a_token(proxy, recorder, made, header):
    if header.get("kid") == 5:
        token = jwt.api_jws.encode(b"{}", made.keys["ES256"], "ES256").split(".", 1)[1]
        token = b64(b'{"alg":"ES256","kid":5}') + "." + token
    else:
        token = made.token("ES256", header)
    answer = proxy.curl("/x", authorization="Bearer " + token)
    assert answer.status == 401 and recorder.seen == []


def test_duplicate_claims(proxy, recorder, made):
    """Two readers could take different ones."""
    said = b'{"iss":"%s","aud":"cwms","sub":"ann","sub":"root","exp":%d}' % (MADE.encode(), time.time() + 60)
    token = jwt.api_jws.encode(said, made.keys["ES256"], "ES256", {"kid": "ES256"})
    check_401(proxy, recorder, proxy.curl("/x", authorization="Bearer " + token), "token_malformed")


@pytest.mark.parametrize("value,status,reason", [
    (None, 401, "credential_missing"), ("", 401, "credential_scheme"), ("Basic YTpi", 401, "credential_scheme"),
    ("apikey secret", 401, "credential_scheme"), ("Bearer", 401, "token_malformed"), ("Bearer x", 401,
        "token_malformed"),
    ("Bearer x.y", 401, "token_malformed"), ("Bearer ..", 401,
     "token_malformed"), ("Bearer a.b.c.d.e", 401, "token_malformed"),
    ("@", 401, "credential_scheme"), ("Bearer @, Bearer @", 400, "multiple_credentials"),
    ("Bearer @ @", 400, "multiple_credentials"), ("Basic YTpi, Bearer @", 400, "multiple_credentials"),
    ("Bearer @,", 400, "multiple_credentials"), ("bearer @", 200,
     None), ("BEARER  @", 200, None), ("  Bearer @  ", 200, None),
    ("Bearer @=", 401, "token_malformed"), ("Bearer @.", 401, "token_malformed"), ("Bearer\t@", 401, None),
    ("Bearer " + "a" * 17000, 401, "token_malformed"), ('Bearer "@"', 401, "token_malformed"),
])
def test_credentials(proxy, recorder, made, value, status, reason):
    lines = b"" if value is None else b"Authorization: " + value.replace("@", made.token("ES256")).encode() + b"\r\n"
    client = proxy.client().send(b"GET /x HTTP/1.1\r\nHost: api.test\r\n" + lines + b"\r\n")
    answer = client.answer()
    assert answer.status == status, answer
    if status == 401 and reason:
        check_401(proxy, recorder, answer, reason)
    elif reason:
        assert answer.json["code"] == reason and recorder.seen == []
    client.close()


def test_two_lines(proxy, recorder, made):
    token = made.token("ES256").encode()
    for second in (b"Authorization: Bearer " + token, b"authorization: Basic YTpi", b"Authorization:"):
        client = proxy.client().send(





                                     b"GET /x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + token + b"\r\n" + second +
                                     b"\r\n\r\n")
        answer = client.answer()
        assert (answer.status, answer.json["code"]) == (400, "multiple_credentials")
    assert recorder.seen == []


def test_public_routes_look_at_no_credential(proxy):
    for value in ("Bearer x", "Basic YTpi"):
        assert proxy.curl("/pub/x", authorization=value).status == 200


def test_expiry_is_checked_at_every_use(proxy, made):
    token = made.token("ES256", exp=int(time.time()) - 8)  # leeway_s is 10
    assert proxy.curl("/x", authorization="Bearer " + token).status == 200
    assert harness.eventually(lambda: proxy.curl("/x", authorization="Bearer " + token).status == 401, "it expires", 5)


# --- keys come and go ---------------------------------------------------

@pytest.fixture
def own_issuer():
    peer = harness.Issuer()
    yield peer
    peer.stop()


def start(doorward, recorder, engine, issuer, **tokens):
    return doorward(settings(recorder.url, engine.url, issuer, tokens={"anonymous": "refuse", **tokens}))


def test_rotation(doorward, recorder, engine, own_issuer):
    """A new kid is fetched once for all who wait; a key that is gone takes its tokens along, also the verified ones."""
    proxy = start(doorward, recorder, engine, own_issuer)
    old = own_issuer.bearer("damop")
    assert proxy.curl("/x", authorization=old).status == 200
    assert own_issuer.asked() == 1
    own_issuer.server.rotate(False)
    assert proxy.curl("/x", authorization=old).status == 200, "nobody knows yet"
    own_issuer.server.settings["certs_delay_ms"] = 200
    new = own_issuer.bearer("damop")
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        assert [a.status for a in pool.map(lambda _: proxy.curl("/x", authorization=new), range(20))] == [200] * 20
    assert own_issuer.asked() == 2
    recorder.reset()
    check_401(proxy, recorder, proxy.curl("/x", authorization=old), "token_key")
    for _ in range(3):
        assert proxy.curl("/x", authorization=own_issuer.bearer("damop", flaw="kid")).status == 401
    assert own_issuer.asked() == 2, "at most one refetch for unknown keys in 30 s"


def test_kept_key_keeps_its_tokens(doorward, recorder, engine, own_issuer):
    proxy = start(doorward, recorder, engine, own_issuer)
    old = own_issuer.bearer("damop")
    assert proxy.curl("/x", authorization=old).status == 200
    own_issuer.server.rotate(True)
    assert proxy.curl("/x", authorization=own_issuer.bearer("damop")).status == 200
    assert proxy.curl("/x", authorization=old).status == 200


@pytest.mark.parametrize("trouble", [{"certs_status": 503}, {"certs_empty": True}])
def test_failed_refresh_keeps_the_old_keys(doorward, recorder, engine, own_issuer, trouble):
    proxy = start(doorward, recorder, engine, own_issuer)
    first = own_issuer.bearer("damop")
    assert proxy.curl("/x", authorization=first).status == 200
    own_issuer.server.settings.update(trouble)
    assert proxy.curl("/x", authorization=own_issuer.bearer("damop", flaw="kid")).status == 401
    assert own_issuer.asked() == 2
    assert proxy.curl("/x", authorization=first).status == 200
    assert proxy.curl("/x", authorization=own_issuer.bearer("water")).status == 200, "a new token of an old key"


def test_stale_keys_are_503(doorward, recorder, engine, own_issuer):
    config = settings(recorder.url, engine.url, own_issuer)
    config["tokens"]["issuers"][0]["max_stale_s"] = 2
    proxy = doorward(config)
    token = own_issuer.bearer("damop")
    assert proxy.curl("/x", authorization=token).status == 200
    own_issuer.server.settings["certs_status"] = 503
    answer = harness.eventually(lambda: (a := proxy.curl("/x", authorization=token)).status == 503 and a, "stale", 6)
    assert answer.json["code"] == "keys_unavailable" and answer.header("retry-after")
    own_issuer.server.settings.clear()
    harness.eventually(lambda: proxy.curl("/x", authorization=token).status == 200, "recovered", 8)


def test_issuer_down_at_start(doorward, recorder, engine):
    """It starts, says what is missing, answers 503, and recovers by itself; another issuer's tokens are served."""
    port = harness.free_port()

    class Absent:
        name = f"http://127.0.0.1:{port}/realms/demo"
        jwks_url = name + "/protocol/openid-connect/certs"
    good = harness.Issuer()
    config = settings(recorder.url, engine.url, Absent)
    config["tokens"]["issuers"].append({"issuer": good.name, "jwks_url": good.jwks_url, "audiences": ["cwms"]})
    proxy = doorward(config)
    claims = {"iss": Absent.name}
    token = good.bearer("damop", claims=claims)
    answer = proxy.curl("/x", authorization=token)
    assert (answer.status, answer.json["code"]) == (503, "keys_unavailable")
    assert int(answer.header("retry-after")) >= 1
    assert proxy.curl("/x", authorization=good.bearer("damop")).status == 200
    ready = proxy.curl("/ready")
    assert ready.status == 503
    rows = {d["name"]: d for d in ready.json["dependencies"]}
    assert rows[Absent.name]["ok"] is False and rows[good.name]["ok"] is True
    assert proxy.curl("/health").status == 200
    late = demo_issuer.Issuer(("127.0.0.1", port), harness.USERS, "cwms")
    threading.Thread(target=late.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        late_token = "Bearer " + late.token("damop")
        harness.eventually(lambda: proxy.curl("/x", authorization=late_token).status == 200, "keys are there", 8)
        assert proxy.curl("/ready").status == 200
    finally:
        late.shutdown()
        late.server_close()
        good.stop()
