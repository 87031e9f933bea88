"""Keys, certificates and signatures. The only file that imports cryptography.

Each server has its own certificate authority (CA); clients get its certificate once, over a secure channel. The CA
certifies the key with which the server speaks TLS and signs requests. Each client makes a key pair and sends the public
key to the server operator; with the private key it joins and signs its responses.
"""

import datetime
import hashlib
import ipaddress
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pfedeg.errors import InputError
from pfedeg.files import write_bytes, write_private

Private = ec.EllipticCurvePrivateKey
Public = ec.EllipticCurvePublicKey
YEARS_OF_CA, DAYS_OF_SERVER = 10, 825
MOST_PEM_BYTES = 1 << 18  # of what another party sends as its certificate
REVOKED = "revoked.crl"  # beside ca.crt: the revoked certificates, in a list signed by the CA


def make_authority(folder: Path, host: str) -> None:
    """Make a CA and a certificate for the server: ca.key, ca.crt, server.key, server.crt."""
    key = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"pfedeg federation at {host}"[:64])])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=365 * YEARS_OF_CA))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA384())
    )
    write_private(folder / "ca.key", _private_pem(key))
    write_bytes(folder / "ca.crt", certificate.public_bytes(serialization.Encoding.PEM))
    certify_server(folder, host)


def certify_server(folder: Path, host: str) -> None:
    """Make a new key and certificate for the server, signed by the CA in the same folder."""
    authority = read_certificate(folder / "ca.crt")
    signer = _load_pem(folder / "ca.key")
    key = ec.generate_private_key(ec.SECP384R1())
    names: list[x509.GeneralName] = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    try:
        names.append(x509.IPAddress(ipaddress.ip_address(host)))
    except ValueError:
        names.append(x509.DNSName(host.encode("idna").decode()))
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64])]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=DAYS_OF_SERVER))
        .add_extension(x509.SubjectAlternativeName(list(dict.fromkeys(names))), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA384())
    )
    write_private(folder / "server.key", _private_pem(key))
    write_bytes(folder / "server.crt", certificate.public_bytes(serialization.Encoding.PEM))


def revoke_server(folder: Path) -> None:
    """Add the server's certificate to the list of revoked ones, signed by the CA in the same folder."""
    authority, signer = read_certificate(folder / "ca.crt"), _load_pem(folder / "ca.key")
    old, now = read_certificate(folder / "server.crt"), datetime.datetime.now(datetime.UTC)
    known = read_revoked(authority, _read(folder / REVOKED)) if (folder / REVOKED).exists() else None
    entry = x509.RevokedCertificateBuilder().serial_number(old.serial_number).revocation_date(now).build()
    number = x509.CRLNumber(1 + _number(known))
    builder = x509.CertificateRevocationListBuilder().issuer_name(authority.subject).add_extension(number, False)
    builder = builder.last_update(now - datetime.timedelta(hours=1)).next_update(authority.not_valid_after_utc)
    for each in (*(known or ()), entry):
        builder = builder.add_revoked_certificate(each)
    write_bytes(folder / REVOKED, builder.sign(signer, hashes.SHA384()).public_bytes(serialization.Encoding.PEM))


def read_revoked(authority: x509.Certificate, pem: bytes) -> x509.CertificateRevocationList | None:
    """The list of revoked certificates in PEM, if there is one and the CA signed it."""
    if b"X509 CRL" not in pem or len(pem) > MOST_PEM_BYTES:
        return None
    try:
        found = x509.load_pem_x509_crl(pem)
        return found if found.is_signature_valid(authority.public_key()) and _number(found) else None  # type: ignore[arg-type]
    except Exception:  # the library fails in many ways on bytes that it did not write
        return None


def keep_revoked(folder: Path, authority: x509.Certificate, pem: bytes) -> x509.CertificateRevocationList | None:
    """The newer one of the list in a client's folder and the one that a server sent, which is kept there."""
    path = folder / REVOKED
    known, found = read_revoked(authority, _read(path)) if path.exists() else None, read_revoked(authority, pem)
    if found is None or _number(found) <= _number(known):
        return known
    write_bytes(path, found.public_bytes(serialization.Encoding.PEM))
    return found


def _number(revoked: x509.CertificateRevocationList | None) -> int:
    return revoked.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number if revoked else 0


def check_valid(path: Path, action: str) -> None:
    """Refuse a certificate that has expired, or is not yet valid by this machine's clock; `action` says what to do."""
    problem = validity(path)[1]
    if problem:
        raise InputError(f"{path}: the certificate {problem}; {action}, or set this machine's clock")


def validity(path: Path) -> tuple[str, str]:
    """The last day of a certificate, and what is wrong with its time now, or ""."""
    found, now = read_certificate(path), datetime.datetime.now(datetime.UTC)
    last = f"{found.not_valid_after_utc:%Y-%m-%d}"
    if now > found.not_valid_after_utc:
        return last, f"expired on {last}"
    return last, f"is valid from {found.not_valid_before_utc:%Y-%m-%d} only" if now < found.not_valid_before_utc else ""


def make_pair(folder: Path, name: str) -> None:
    """Make a client's key pair: client.key (OpenSSH), and client.pub for the server operator."""
    key = ec.generate_private_key(ec.SECP384R1())
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH
    write_private(folder / "client.key", key.private_bytes(encoding, form, serialization.NoEncryption()))
    write_bytes(folder / "client.pub", public_line(key.public_key(), name).encode())


def public_line(key: Public, name: str) -> str:
    """A public key as a line in OpenSSH format."""
    raw = key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return f"{raw.decode()} {'-'.join(name.split())}\n"


def read_pair(path: Path) -> Private:
    """A client's private key."""
    try:
        key = serialization.load_ssh_private_key(_read(path), None)
    except (ValueError, UnsupportedAlgorithm):
        raise InputError(f"{path}: not a private key; `pfedeg client init` makes one") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InputError(f"{path}: not an elliptic-curve key; `pfedeg client init` makes one")
    return key


def read_public(path: Path) -> Public:
    """A client's public key."""
    raw = _read(path)
    if b"PRIVATE KEY" in raw:
        raise InputError(
            f"{path}: this is a private key, which must stay with its client; the public key is in client.pub"
        )
    try:
        key = serialization.load_ssh_public_key(raw.strip())
    except Exception:  # of many kinds, also of the library in Rust
        raise InputError(f"{path}: not a public key; the client has it in client.pub") from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != "secp384r1":
        raise InputError(f"{path}: not a P-384 key; `pfedeg client init` makes one")
    return key


def identity(key: Public) -> bytes:
    """A public key as PEM, as the SuperLink stores it."""
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def short(key: Public) -> str:
    """The fingerprint of a public key, short enough to compare by telephone."""
    digest = hashlib.sha256(identity(key)).hexdigest()
    return ":".join(digest[i : i + 4] for i in range(0, 24, 4))


def read_certificate(path: Path) -> x509.Certificate:
    """A certificate in a file."""
    try:
        return x509.load_pem_x509_certificate(_read(path))
    except ValueError:
        raise InputError(f"{path}: not a certificate; get ca.crt from the server operator") from None


class Signer:
    """Signs with the server's or a client's key."""

    def __init__(self, key: Private, certificate: bytes = b"") -> None:
        """The server sends its certificate, and the list of revoked ones, with each signature."""
        self._key, self.certificate = key, certificate

    @classmethod
    def of_server(cls, folder: Path) -> "Signer":
        """The server's signer, from its folder."""
        revoked = _read(folder / REVOKED) if (folder / REVOKED).exists() else b""
        return cls(_load_pem(folder / "server.key"), _read(folder / "server.crt") + revoked)

    def sign(self, body: bytes) -> bytes:
        """A signature."""
        return self._key.sign(body, ec.ECDSA(hashes.SHA384()))


def signed_by(key: Public, body: bytes, signature: bytes) -> bool:
    """Whether the owner of a key signed the body."""
    try:
        key.verify(signature, body, ec.ECDSA(hashes.SHA384()))
    except InvalidSignature:
        return False
    return True


def certified(
    authority: x509.Certificate, certificate: bytes, revoked: x509.CertificateRevocationList | None = None
) -> Public | None:
    """The key in a server's certificate if the CA issued it and it is valid now and not revoked; else None."""
    if len(certificate) > MOST_PEM_BYTES:
        return None
    try:
        found = x509.load_pem_x509_certificate(certificate)
        found.verify_directly_issued_by(authority)
        use = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        key, now = found.public_key(), datetime.datetime.now(datetime.UTC)
        valid = found.not_valid_before_utc <= now <= found.not_valid_after_utc
        listed = revoked is not None and revoked.get_revoked_certificate_by_serial_number(found.serial_number)
    except Exception:  # the library fails in many ways on bytes that it did not write
        return None
    if (
        not valid
        or listed
        or ExtendedKeyUsageOID.SERVER_AUTH not in use
        or not isinstance(key, ec.EllipticCurvePublicKey)
    ):
        return None
    return key


def _usage(**granted: bool) -> x509.KeyUsage:
    names = (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    )
    return x509.KeyUsage(**{name: granted.get(name, False) for name in names})


def _private_pem(key: Private) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _load_pem(path: Path) -> Any:
    try:
        return serialization.load_pem_private_key(_read(path), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise InputError(f"{path}: not a private key") from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
