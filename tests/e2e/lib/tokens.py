"""JSON Web Tokens as devices make them, signed by openssl."""
import base64
import json
import time

from lib.certs import openssl

OPTIONS = {"RS": [], "ES": [], "PS": ["-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:digest"]}


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def integers(der):
    """The two numbers of an ECDSA signature in DER."""
    at = 2 if der[1] < 0x80 else 3
    for _ in range(2):
        n = der[at + 1]
        yield int.from_bytes(der[at + 2:at + 2 + n], "big")
        at += 2 + n


class Key:
    """`kind` as "EC:P-256" or "RSA:2048"."""

    def __init__(self, folder, name, kind="EC:P-256"):
        self.folder, self.file = folder, folder / f"{name}.key"
        self.algorithm, detail = kind.split(":")
        option = {"EC": f"ec_paramgen_curve:{detail}", "RSA": f"rsa_keygen_bits:{detail}"}[self.algorithm]
        openssl("genpkey", "-algorithm", self.algorithm, "-pkeyopt", option, "-out", self.file, folder=folder)
        self.width = (int(detail.split("-")[-1]) + 7) // 8
        openssl("pkey", "-in", self.file, "-pubout", "-outform", "DER", "-out", f"{name}.der", folder=folder)
        self.public = base64.b64encode((folder / f"{name}.der").read_bytes()).decode()

    def jwk(self, kid):
        """The public key as a JSON Web Key."""
        der = base64.b64decode(self.public)
        if self.algorithm == "EC":
            point = der[-2 * self.width:]
            return {"kty": "EC", "crv": f"P-{self.width * 8}", "kid": kid, "x": encode(point[:self.width]), "y": encode(point[self.width:])}
        said = openssl("pkey", "-in", self.file, "-noout", "-text", folder=self.folder).stdout
        modulus = said.partition("modulus:")[2].partition("publicExponent")[0]
        return {"kty": "RSA", "kid": kid, "n": encode(bytes.fromhex("".join(modulus.split()).replace(":", "")).lstrip(b"\0")), "e": "AQAB"}

    def token(self, algorithm="ES256", life_s=60, kid=None, **claims):
        now = int(time.time())
        head = {"typ": "JWT", "alg": algorithm} | ({"kid": kid} if kid else {})
        body = {"iat": now, "exp": now + life_s} | claims
        text = ".".join(encode(json.dumps(part).encode()) for part in (head, body))
        (self.folder / "to-sign").write_text(text)
        openssl("dgst", f"-sha{algorithm[2:]}", "-sign", self.file, *OPTIONS[algorithm[:2]], "-out", "signed", "to-sign", folder=self.folder)
        signature = (self.folder / "signed").read_bytes()
        if algorithm.startswith("ES"):
            signature = b"".join(n.to_bytes(self.width, "big") for n in integers(signature))
        return f"{text}.{encode(signature)}"


def names(tenant, auth_id):
    """The claims that name a device."""
    return {"aud": ["hono-adapter"], "tid": tenant, "sub": auth_id}
