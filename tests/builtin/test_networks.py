"""Which addresses may be reached."""

import pytest

from skiplane.worker.builtin.networks import is_allowed, parse_networks

PRIVATE = """
    127.0.0.1 127.255.0.1 10.1.1.1 172.16.0.1 192.168.1.1 100.64.1.1 169.254.169.254 0.0.0.0
    255.255.255.255 224.0.0.1 240.0.0.1 192.0.2.1 198.18.0.1 ::1 :: fe80::1 fe80::1%eth0 fc00::1
    fd12::1 ff02::1 fec0::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::127.0.0.1 ::ffff:0:7f00:1
    64:ff9b::7f00:1 64:ff9b:1::808:808 2002:7f00:1:: 2002:a00:1:: 2001:0:1::1
"""
PUBLIC = "8.8.8.8 1.1.1.1 2606:4700::1111 ::ffff:8.8.8.8 64:ff9b::808:808 2002:808:808::"


@pytest.mark.parametrize("address", PRIVATE.split())
def test_what_is_not_public_is_refused(address: str):
    assert not is_allowed(address)


@pytest.mark.parametrize("address", PUBLIC.split())
def test_what_is_public_is_allowed(address: str):
    assert is_allowed(address)


@pytest.mark.parametrize("address", ["10.1.2.3", "::ffff:10.1.2.3", "fd00::9"])
def test_an_operator_can_allow_more(address: str):
    allowed = parse_networks("10.0.0.0/8, fd00::/64")
    assert is_allowed(address, allowed)
    assert not is_allowed("127.0.0.1", allowed)


def test_a_typing_error_is_no_network():
    with pytest.raises(ValueError, match=r"10\.0\.0\.0/33"):
        parse_networks("127.0.0.1, 10.0.0.0/33")
