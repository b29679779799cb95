"""Which addresses a built-in task may connect to: the public ones, and what the operator allows."""

import ipaddress
from collections.abc import Sequence
from typing import TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

# IPv6 ranges with an IPv4 address inside, and the bits to its right: what is
# sent there may arrive at that address.
_CARRIERS = (
    (ipaddress.IPv6Network("::/96"), 0),  # IPv4-compatible, RFC 4291
    (ipaddress.IPv6Network("::ffff:0:0/96"), 0),  # IPv4-mapped, RFC 4291
    (ipaddress.IPv6Network("::ffff:0:0:0/96"), 0),  # IPv4-translated, RFC 2765
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),  # NAT64, RFC 6052
    (ipaddress.IPv6Network("2002::/16"), 80),  # 6to4, RFC 3056
)
_NEVER = (
    ipaddress.IPv6Network("64:ff9b:1::/48"),  # local NAT64, RFC 8215
    ipaddress.IPv6Network("2001::/32"),  # Teredo, RFC 4380
    ipaddress.IPv6Network("fec0::/10"),  # site-local, RFC 3879
)


def parse_networks(text: str) -> tuple[Network, ...]:
    """Read networks such as ``10.0.0.0/8, fd00::/8, 127.0.0.1``.

    Raises:
        ValueError: One of them is no network; the message names it.
    """
    parts = [part for piece in text.split(",") if (part := piece.strip())]
    return tuple(ipaddress.ip_network(part) for part in parts)


def is_allowed(address: str, allowed: Sequence[Network] = ()) -> bool:
    """Tell whether to connect to an address.

    Args:
        address: A numeric address, with or without a zone (``fe80::1%eth0``).
        allowed: Networks that the operator has allowed on top of the public ones.
    """
    number = ipaddress.ip_address(address.partition("%")[0])
    inner = _inner(number)
    if any(candidate in network for network in allowed for candidate in (number, inner)):
        return True
    if inner is not number:
        return is_allowed(str(inner))
    if number.version == 6 and any(number in network for network in _NEVER):
        return False
    return number.is_global and not (
        number.is_multicast or number.is_reserved or number.is_unspecified
    )


def _inner(number: Address) -> Address:
    """Give the IPv4 address inside an IPv6 one, else the address itself."""
    if isinstance(number, ipaddress.IPv6Address):
        for network, shift in _CARRIERS:
            if number in network:
                return ipaddress.IPv4Address(int(number) >> shift & 0xFFFFFFFF)
    return number
