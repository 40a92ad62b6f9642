"""Certificates for the tests, by the openssl command: an authority and what it signs, in files of a folder.

    authority = Authority(folder)
    cert_file, key_file = authority.issue("api.test", sans=["api.test", "127.0.0.1"])
    authority.file   what clients trust
"""
import ipaddress
import os
import re
import shutil
import subprocess
import time


def openssl(*arguments, text=None):
    ran = subprocess.run(["openssl", *arguments], input=text, capture_output=True, text=True, check=False, timeout=30)
    assert ran.returncode == 0, f"openssl {' '.join(arguments)}: {ran.stderr}"
    return ran.stdout


def alt_name(san):
    try:
        return f"IP:{ipaddress.ip_address(san)}"
    except ValueError:
        return f"DNS:{san}"


class Authority:
    """One that signs, whose own certificate is in .file. `signed_by` another one: an intermediate; its certificate files
    then hold the rest of the chain too."""

    def __init__(self, folder, name="authority", signed_by=None):
        self.folder, self.name, self.parent = str(folder), name, signed_by
        self.serial = 0
        self.file, self.key_file = self.path(f"{name}.pem"), self.path(f"{name}.key")
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.key_file)
        self.sign(signed_by or self, name, self.key_file, self.file, "basicConstraints=critical,CA:TRUE\n"
                  "keyUsage=critical,keyCertSign,cRLSign\nsubjectKeyIdentifier=hash\n", 365)

    def path(self, name):
        return os.path.join(self.folder, name)

    def sign(self, issuer, name, key_file, cert_file, extensions, days, past=False):
        """past: its end is a minute ago."""
        request, extension_file = self.path("request.pem"), self.path("extensions.cnf")
        subject = name if name.startswith("/") else f"/CN={name}"
        openssl("req", "-new", "-key", key_file, "-subj", subject, "-out", request)
        with open(extension_file, "w", encoding="ascii") as file:
            file.write(extensions)
        issuer.serial += 1
        if past:
            self.sign_past(issuer, request, extension_file, cert_file)
            return
        signer = ["-signkey", key_file] if issuer is self and not os.path.exists(self.file) else \
            ["-CA", issuer.file, "-CAkey", issuer.key_file, "-set_serial", str(1000 + issuer.serial)]
        openssl("x509", "-req", "-in", request, *signer, "-days", str(days), "-sha256", "-extfile", extension_file,
                "-out", cert_file)

    def sign_past(self, issuer, request, extension_file, cert_file):
        """Only `openssl ca` takes an end of its own."""
        database = self.path("database")
        shutil.rmtree(database, ignore_errors=True)
        os.mkdir(database)
        for name, content in (("index", ""), ("serial", f"{0x2000 + issuer.serial:X}\n")):
            with open(os.path.join(database, name), "w", encoding="ascii") as file:
                file.write(content)
        config = os.path.join(database, "ca.cnf")
        with open(config, "w", encoding="ascii") as file:
            file.write(f"[ca]\ndefault_ca=it\n[it]\ndatabase={database}/index\nserial={database}/serial\n"
                       f"new_certs_dir={database}\ndefault_md=sha256\npolicy=any\nunique_subject=no\n"
                       "[any]\ncommonName=supplied\norganizationName=optional\n")

        def stamp(seconds):
            return time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + seconds))
        openssl("ca", "-batch", "-config", config, "-in", request, "-out", cert_file, "-notext", "-cert", issuer.file,
                "-keyfile", issuer.key_file, "-startdate", stamp(-86400), "-enddate", stamp(-60), "-extfile",
                extension_file)

    def issue(self, name, sans=None, days=30, not_after_past=False, client=False, rsa=False):
        """(certificate file, key file) for a name ("CN" or "/O=…/CN=…"). sans: names and addresses, the name itself when
        not given; none for a client. A second one of the same name gets files of its own."""
        stem = re.sub(r"[^\w.-]", "_", name)
        base, n = self.path(f"{self.name}-{stem}"), 1
        while os.path.exists(f"{base}-{n}.pem"):
            n += 1
        cert_file, key_file = f"{base}-{n}.pem", f"{base}-{n}.key"
        if rsa:
            openssl("genrsa", "-out", key_file, "2048")
        else:
            openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key_file)
        names = sans if sans is not None else [] if client else [name]
        extensions = "basicConstraints=CA:FALSE\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n" \
            f"extendedKeyUsage={'clientAuth' if client else 'serverAuth'}\n"
        if names:
            extensions += f"subjectAltName={','.join(alt_name(san) for san in names)}\n"
        self.sign(self, name, key_file, cert_file, extensions, days, not_after_past)
        above = self
        while above.parent:
            with open(cert_file, "a", encoding="ascii") as out, open(above.file, encoding="ascii") as chain:
                out.write(chain.read().split("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----\n")
            above = above.parent
        return cert_file, key_file
