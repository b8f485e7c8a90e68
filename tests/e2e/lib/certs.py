"""Certificates made by openssl while the tests run, so that none expires and no key lies in the repository."""
import subprocess
import tempfile
from pathlib import Path


def openssl(*arguments, folder, **options):
    return subprocess.run(["openssl", *map(str, arguments)], cwd=folder, check=True, capture_output=True, text=True, **options)


class Authority:
    """A CA with its files in `folder`; signs, revokes, and writes what it has revoked."""

    def __init__(self, folder, name, issuer=None):
        self.folder = Path(folder)
        self.name = name
        self.cert = self.folder / f"{name}.pem"
        self.key = self.folder / f"{name}.key"
        self.database = self.folder / f"{name}.db"
        self.database.write_text("")
        (self.folder / f"{name}.crlnumber").write_text("01\n")
        (self.folder / f"{name}.cnf").write_text(f"""[ca]
default_ca = this
[this]
database = {self.database}
certificate = {self.cert}
private_key = {self.key}
crlnumber = {self.folder}/{name}.crlnumber
default_md = sha256
default_crl_days = 2
""")
        self.request(self.key, name)
        extensions = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\nsubjectKeyIdentifier=hash\n"
        self.sign(self.key, self.cert, extensions, issuer or self, 3)

    def request(self, key, name):
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out",
                key.with_suffix(".csr"), "-subj", f"/O=Millrace/CN={name}", folder=self.folder)

    def sign(self, key, cert, extensions, issuer, days):
        file = key.with_suffix(".ext")
        file.write_text(extensions)
        by = ["-signkey", key] if issuer is self and cert == self.cert else ["-CA", issuer.cert, "-CAkey", issuer.key, "-CAcreateserial"]
        openssl("x509", "-req", "-in", key.with_suffix(".csr"), "-out", cert, "-days", days, "-extfile", file, *by, folder=self.folder)

    def issue(self, name, names="", days=2, file=None, extensions=""):
        """(certificate, key) of `name`; `names` as in "DNS:localhost,IP:127.0.0.1"; more extensions in lines. With days=-1 it is over."""
        key = self.folder / f"{file or name}.key"
        cert = self.folder / f"{file or name}.pem"
        self.request(key, name)
        self.sign(key, cert, "basicConstraints=CA:FALSE\n" + (f"subjectAltName={names}\n" if names else "") + extensions, self, days)
        return cert, key

    def vouch(self, *certs):
        """Lets its responder know that it has issued these."""
        for cert in certs:
            openssl("ca", "-config", self.folder / f"{self.name}.cnf", "-valid", cert, folder=self.folder)

    def respond(self, request, *options, signer=None):
        """What openssl's OCSP responder answers to a request (DER), signed by the CA or by `signer`, (certificate, key)."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            (Path(folder) / "request").write_bytes(request)
            cert, key = signer or (self.cert, self.key)
            openssl("ocsp", "-index", self.database, "-CA", self.cert, "-rsigner", cert, "-rkey", key, "-rmd", "sha256", "-reqin", "request",
                    "-respout", "response", *options, folder=folder)
            return (Path(folder) / "response").read_bytes()

    def revoke(self, *certs):
        """Writes the list of all it has revoked so far."""
        config = self.folder / f"{self.name}.cnf"
        for cert in certs:
            openssl("ca", "-config", config, "-revoke", cert, folder=self.folder)
        crl = self.folder / f"{self.name}.crl"
        openssl("ca", "-config", config, "-gencrl", "-out", crl, folder=self.folder)
        return crl
