"""JWTs of the demo: made by the issuer, checked by the API. Needs python3-cryptography only."""
import base64
import json
import time

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def number(value):
    return encode(value.to_bytes((value.bit_length() + 7) // 8, "big"))


class Key:
    """A signing key with the algorithm that fits it."""

    def __init__(self, kid, algorithm):
        self.kid = kid
        self.algorithm = algorithm
        if algorithm == "RS256":
            self.private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        elif algorithm == "ES256":
            self.private = ec.generate_private_key(ec.SECP256R1())
        else:
            raise ValueError(algorithm)

    def jwk(self):
        numbers = self.private.public_key().public_numbers()
        common = {"kid": self.kid, "use": "sig", "alg": self.algorithm}
        if self.algorithm == "RS256":
            return {"kty": "RSA", "n": number(numbers.n), "e": number(numbers.e), **common}
        return {"kty": "EC", "crv": "P-256", "x": encode(numbers.x.to_bytes(32, "big")),
                "y": encode(numbers.y.to_bytes(32, "big")), **common}

    def sign(self, data):
        if self.algorithm == "RS256":
            return self.private.sign(data, padding.PKCS1v15(), hashes.SHA256())
        r, s = decode_dss_signature(self.private.sign(data, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")

    def token(self, claims, header=None):
        head = {"alg": self.algorithm, "typ": "JWT", "kid": self.kid, **(header or {})}
        head = {name: value for name, value in head.items() if value is not None}
        text = encode(json.dumps(head).encode()) + "." + encode(json.dumps(claims).encode())
        return text + "." + encode(self.sign(text.encode()))


def fits(jwk, algorithm):
    return jwk.get("alg", algorithm) == algorithm and jwk.get("kty") == {"RS256": "RSA", "ES256": "EC"}.get(algorithm)


def check(jwk, algorithm, data, signature):
    """True when the signature is the key's."""
    try:
        if algorithm == "RS256":
            public = rsa.RSAPublicNumbers(int.from_bytes(decode(jwk["e"]), "big"),
                                          int.from_bytes(decode(jwk["n"]), "big")).public_key()
            public.verify(signature, data, padding.PKCS1v15(), hashes.SHA256())
        else:
            public = ec.EllipticCurvePublicNumbers(int.from_bytes(decode(jwk["x"]), "big"),
                                                   int.from_bytes(decode(jwk["y"]), "big"), ec.SECP256R1()).public_key()
            if len(signature) != 64:
                return False
            der = encode_dss_signature(int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big"))
            public.verify(der, data, ec.ECDSA(hashes.SHA256()))
        return True
    except (InvalidSignature, KeyError, ValueError):
        return False


def verified_claims(token, keys, issuer):
    """The claims of a token that one of the keys signed for this issuer and that has not expired; else None."""
    try:
        head, payload, signature = token.split(".")
        header, claims = json.loads(decode(head)), json.loads(decode(payload))
        algorithm = header["alg"]
        candidates = [k for k in keys if k.get("kid") == header.get("kid") and fits(k, algorithm)]
        if not any(check(k, algorithm, f"{head}.{payload}".encode(), decode(signature)) for k in candidates):
            return None
        if claims["iss"] != issuer or float(claims["exp"]) <= time.time():
            return None
        return claims
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
