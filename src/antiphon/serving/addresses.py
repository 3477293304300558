"""Decides whether an address belongs to the public internet."""

import ipaddress

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_NAT64_LOCAL = ipaddress.ip_network("64:ff9b:1::/48")


def is_public(address: str) -> bool:
    """Whether *address*, as a resolver writes it, may be connected to: no loopback, link, private or reserved one.

    IPv6 forms that carry an IPv4 address (mapped, NAT64, 6to4, Teredo) are judged by that too.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        inner = parsed.ipv4_mapped or parsed.sixtofour
        if inner is None and parsed.teredo is not None:
            inner = parsed.teredo[1]
        if parsed in _NAT64:
            inner = ipaddress.IPv4Address(int(parsed) & 0xFFFF_FFFF)
        if inner is not None:
            return is_public(str(inner))
        if parsed in _NAT64_LOCAL or parsed.is_site_local or int(parsed) >> 32 == 0:
            return False
    return parsed.is_global and not parsed.is_multicast
