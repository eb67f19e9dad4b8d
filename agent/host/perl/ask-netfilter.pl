# Sends requests to the kernel's packet filter by netlink(7). No arguments. Standard input: a pattern and then the
# requests, each after its length (32 bits, big-endian). A request is sent when the previous one was answered. Prints
# the answers that match the pattern, and all errors and acknowledgements.
#
# System calls: socket with AF_NETLINK, send, recv. Node has no netlink sockets, and nft(8) takes three times as long to
# list counters.
use strict;
my ($pattern, @requests) = unpack('(N/a*)*', do { local $/; binmode STDIN; <STDIN> });
my $kernel = pack('S S L L', 16, 0, 0, 0);
socket(my $socket, 16, 3, 12) or die "socket: $!\n";
setsockopt($socket, 1, 33, pack('l', 1 << 20)); # SO_RCVBUFFORCE
bind($socket, $kernel) or die "bind: $!\n";
binmode STDOUT;
for my $request (@requests) {
  defined send($socket, $request, 0, $kernel) or die "send: $!\n";
  for (my $more = 1; $more;) {
    defined recv($socket, my $answers, 1 << 18, 0) or die "recv: $!\n";
    for (my $at = 0; $at + 16 <= length $answers;) {
      my ($length, $type) = unpack("\@$at L S", $answers);
      die "the kernel sent an answer of only $length bytes\n" if $length < 16;
      my $answer = substr($answers, $at, $length);
      $more = 0 if $type == 2 || $type == 3;
      print $answer, "\0" x (-$length & 3) if $type <= 3 || $pattern eq '' || $answer =~ /$pattern/so;
      $at += $length + 3 & ~3;
    }
  }
}
