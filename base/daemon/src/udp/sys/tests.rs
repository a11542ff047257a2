use super::*;

fn mode_of(socket: &UdpSocket) -> libc::c_int {
    let mut value: libc::c_int = -1;
    let mut length = length_of(size_of::<libc::c_int>());
    // SAFETY: `value` is an integer of `length` bytes; both live through the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    value
}

#[test]
fn what_icmp_says_of_a_path_is_ignored_on_either_family() {
    let mut addresses = vec!["127.0.0.1:0"];
    if crate::listen::tests::has_ipv6() {
        addresses.extend(["[::1]:0", "[::]:0"]);
    }
    for address in addresses {
        for fragments in [Fragments::Allowed, Fragments::Never] {
            let socket = UdpSocket::bind(address).unwrap();
            let mode = path_mtu_mode(fragments);
            assert_ne!(mode_of(&socket), mode, "{address}");
            ignore_path_mtu(&socket, fragments).unwrap();
            assert_eq!(mode_of(&socket), mode, "{address}");
        }
    }
}
