# Prints the ports of listening TCP sockets of both families, one per line. No arguments. It runs in the launcher's own
# process (runBriefPerl), so it must not wait.
#
# A read of /proc/net/tcp takes 10 ms on a large host, because the kernel walks its whole table of connections (262,144
# buckets). By netlink, the kernel returns only the listening sockets.
#
# System calls: socket with AF_NETLINK, send, recv (sock_diag(7)). Node has no netlink sockets, and ss(8) would need a process.
use strict;
my ($netlink, $raw, $sock_diag, $by_family, $dump, $tcp, $listen) = (16, 3, 4, 20, 0x301, 6, 1 << 10);
socket(my $socket, $netlink, $raw, $sock_diag) or die "socket: $!\n";
setsockopt $socket, 1, 20, pack 'q2', 1, 0; # SO_RCVTIMEO of one second
for my $family (2, 10) {
  my $request = pack 'LSSLL CCCxL x48', 72, $by_family, $dump, 1, 0, $family, $tcp, 0, $listen;
  defined send $socket, $request, 0, pack 'SSLL', $netlink, 0, 0, 0 or die "send: $!\n";
  for (my $more = 1; $more;) {
    defined recv $socket, my $messages, 65536, 0 or die "recv: $!\n";
    while (length $messages >= 16) {
      my ($length, $type) = unpack 'LS', $messages;
      die "the kernel sent an answer of only $length bytes\n" if $length < 16;
      die 'the kernel refused the request with errno ', unpack('x16 l', $messages), "\n" if $type == 2;
      $more = 0 if $type == 3;
      print unpack('x20 n', $messages), "\n" if $type == $by_family;
      $messages = substr $messages, $length + 3 & ~3;
    }
  }
}
