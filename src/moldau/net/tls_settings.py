"""TLS settings of a listener or a client: the values of Kafka's `ssl.*` settings."""

from __future__ import annotations

from typing import NamedTuple

PROTOCOLS = ("TLSv1.2", "TLSv1.3")
"""The versions of TLS that can be used. Older ones are broken."""

CLIENT_AUTH = ("none", "requested", "required")
STORE_TYPES = ("JKS", "PKCS12", "PEM")
HTTPS = "https"


class TlsSettings(NamedTuple):
    """Values with the names of Kafka's settings. An empty text stands for a setting that is not set."""

    keystore_location: str = ""
    keystore_type: str = ""
    keystore_password: str = ""
    key_password: str = ""
    """Decrypts the private key; for a PKCS12 file, keystore_password does."""
    keystore_certificate_chain: str = ""
    """Certificates in PEM, instead of a file."""
    keystore_key: str = ""
    """The private key in PEM, instead of a file."""
    truststore_location: str = ""
    truststore_type: str = ""
    truststore_password: str = ""
    truststore_certificates: str = ""
    """Certificates in PEM, instead of a file."""
    client_auth: str = "none"
    enabled_protocols: tuple[str, ...] = PROTOCOLS
    cipher_suites: tuple[str, ...] = ()
    endpoint_identification_algorithm: str = HTTPS
    prefix: str = ""
    """What stands before `ssl.` in the names of the settings, for error messages: `listener.name.internal.`."""

    def __repr__(self) -> str:
        """The values without keys and passwords, because a log or a traceback may show this text."""
        shown = {
            "keystore": self.keystore_location or ("inline" if self.keystore_key else ""),
            "truststore": self.truststore_location or ("inline" if self.truststore_certificates else ""),
            "client_auth": self.client_auth,
            "enabled_protocols": ",".join(self.enabled_protocols),
        }
        return f"TlsSettings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def name(self, setting: str) -> str:
        """Return the full name of a setting: `ssl.keystore.location` for `keystore.location`."""
        return f"{self.prefix}ssl.{setting}"

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the settings name, for a check whether one of them has changed."""
        return tuple(path for path in (self.keystore_location, self.truststore_location) if path)
