# Prints reports about samples of guests' packets (NFLOG), until it is killed. Arguments: the nflog group, the seconds
# between reports, the domains of mining pools, separated by commas. Equal events share a line, which ends in their number:
#
#   ready                            packets are counted from now on
#   o GUEST TARGET PROTOCOL PORT N   the guest opened flows; PORT is 0 if the protocol has none
#   r GUEST TARGET PROTOCOL PORT N   the target refused flows
#   s GUEST TARGET PORT N            the guest sent a request of a mining protocol
#   n GUEST TARGET PORT N            the guest sent a TLS handshake to a mining pool
#   x GUEST CLIENT PORT KIND N       the guest answered as a proxy (socks5, socks4, connect) at its own PORT
#   end SEEN LOST                    numbers of inspected and of lost packets in this report
#
# The content of packets does not leave this process.
#
# System calls: socket with AF_NETLINK, send, recv (nfnetlink_log). Node has no netlink sockets, and no tool prints the
# kernel's log groups without storing every packet.
use strict;
use Errno;
use Socket qw(inet_ntop AF_INET AF_INET6);

$0 = 'berth-packet-log'; # the name in ps(1)
$| = 1;

my ($group, $every, $pools) = @ARGV;
my $pool = join '|', map { quotemeta } split /,/, $pools // '';
my ($most, $seen, $lost) = (20_000, 0, 0);
my %counted;

my $kernel = pack('S S L L', 16, 0, 0, 0);
socket(my $socket, 16, 3, 12) or die "socket: $!\n";
setsockopt($socket, 1, 33, pack('l', 4 << 20)); # SO_RCVBUFFORCE
bind($socket, $kernel) or die "bind: $!\n";

# Packs an attribute of a request (linux/netfilter/nfnetlink_log.h).
sub attribute {
  my ($type, $value) = @_;
  return pack('S S a*', 4 + length $value, $type, $value) . "\0" x (-length($value) & 3);
}
sub configure {
  my ($attributes) = @_;
  my $body = pack('C C n', 0, 0, $group) . $attributes;
  my $message = pack('L S S L L', 16 + length $body, 4 << 8 | 1, 5, 1, 0) . $body;
  defined send($socket, $message, 0, $kernel) or die "send: $!\n";
  defined recv($socket, my $answer, 65536, 0) or die "recv: $!\n";
  my $error = -unpack('x16 l', $answer);
  if ($error) { $! = $error; die "packet log group $group: $!\n" }
}
configure(attribute(1, pack('C', 1)));              # binds to the group
configure(attribute(2, pack('N C C', 640, 2, 0)));  # copies up to 640 bytes of packets
configure(attribute(4, pack('N', 100)));            # delivers packets after one second
configure(attribute(5, pack('N', 100)));            # delivers packets when 100 have arrived
print "ready\n";

sub count {
  my ($what) = @_;
  if (exists $counted{$what} || keys %counted < $most) { $counted{$what}++ } else { $lost++ }
}

# Returns the addresses, the protocol and the payload of an IP packet.
sub parse {
  my ($packet) = @_;
  my $version = ord($packet) >> 4;
  if ($version == 4 && length $packet >= 20) {
    my ($fragment, $protocol, $source, $target) = unpack('x6 n x C x2 a4 a4', $packet);
    return if $fragment & 0x1fff;
    my $header = (ord($packet) & 15) * 4;
    return (AF_INET, $source, $target, $protocol, length $packet >= $header ? substr($packet, $header) : '');
  }
  if ($version == 6 && length $packet >= 40) {
    my ($protocol, $source, $target) = unpack('x6 C x a16 a16', $packet);
    return (AF_INET6, $source, $target, $protocol, substr($packet, 40));
  }
  return;
}

my %name = (6 => 'tcp', 17 => 'udp', 1 => 'icmp', 58 => 'icmp');

sub take_opening {
  my ($family, $source, $target, $protocol, $rest) = parse($_[0]) or return;
  my $port = ($protocol == 6 || $protocol == 17) && length $rest >= 4 ? unpack('x2 n', $rest) : 0;
  count(join ' ', 'o', inet_ntop($family, $source), inet_ntop($family, $target), $name{$protocol} // 'other', $port);
}

sub take_refusal {
  my ($family, $source, $target, $protocol, $rest) = parse($_[0]) or return;
  return if length $rest < 4;
  count(join ' ', 'r', inet_ntop($family, $target), inet_ntop($family, $source), 'tcp', unpack('n', $rest));
}

# Handles an ICMP error, which quotes the guest's packet that caused the error.
sub take_error {
  my ($outer, undef, $guest, undef, $rest) = parse($_[0]) or return;
  return if length $rest < 8;
  my ($family, undef, $target, $protocol, $quoted) = parse(substr($rest, 8)) or return;
  my $port = ($protocol == 6 || $protocol == 17) && length $quoted >= 4 ? unpack('x2 n', $quoted) : 0;
  count(join ' ', 'r', inet_ntop($outer, $guest), inet_ntop($family, $target), $name{$protocol} // 'other', $port);
}

my $miner = qr/"method"\s*:\s*"(?:mining\.(?:subscribe|authorize|configure|extranonce\.subscribe)|eth_submitLogin|eth_getWork)"/;
my $login = qr/"method"\s*:\s*"login"/;

sub take_payload {
  my ($family, $source, $target, $protocol, $rest) = parse($_[0]) or return;
  return if $protocol != 6 || length $rest < 20;
  my ($sport, $dport) = unpack('n n', $rest);
  my $header = (unpack('x12 C', $rest) >> 4) * 4;
  return if length $rest <= $header;
  my $data = substr($rest, $header);
  my ($guest, $other) = (inet_ntop($family, $source), inet_ntop($family, $target));
  if ($data =~ /^\{/) {
    count("s $guest $other $dport") if $data =~ $miner || $data =~ $login && $data =~ /"pass"|"agent"|"rigid"/;
  } elsif ($data =~ /^\x16\x03/) {
    count("n $guest $other $dport") if length $pool && server_name($data) =~ /(?:^|\.)(?:$pool)$/;
  } elsif ($data eq "\5\0") { count("x $guest $other $sport socks5") }
  elsif ($data =~ /^\0\x5a.{6}$/s) { count("x $guest $other $sport socks4") }
  elsif ($data =~ m{^HTTP/1\.\d 200 Connection established}i) { count("x $guest $other $sport connect") }
}

# Returns the server name in a ClientHello (RFC 8446 4.1.2, RFC 6066 3); empty if it is missing or truncated.
sub server_name {
  my ($data) = @_;
  my $at = 9 + 34; # record, handshake, version and random
  return '' if length $data < $at + 1 || ord(substr($data, 5, 1)) != 1;
  $at += 1 + ord(substr($data, $at, 1)); # session
  return '' if length $data < $at + 2;
  $at += 2 + unpack('n', substr($data, $at, 2)); # ciphers
  return '' if length $data < $at + 1;
  $at += 1 + ord(substr($data, $at, 1)) + 2; # compression
  while ($at + 4 <= length $data) {
    my ($type, $length) = unpack('n n', substr($data, $at, 4));
    if ($type == 0) {
      return '' if $at + 9 > length $data;
      return lc substr($data, $at + 9, unpack('n', substr($data, $at + 7, 2)));
    }
    $at += 4 + $length;
  }
  return '';
}

my %take = (o => \&take_opening, r => \&take_refusal, e => \&take_error, p => \&take_payload);

# Handles a logged packet. Attribute 9 is its payload and attribute 10 its prefix.
sub take_packet {
  my ($message, $at, $end) = @_;
  my ($payload, $prefix) = ('', '');
  while ($at + 4 <= $end) {
    my ($length, $type) = unpack("\@$at S S", $message);
    last if $length < 4;
    if ($type == 9) { $payload = substr($message, $at + 4, $length - 4) }
    elsif ($type == 10) { $prefix = substr($message, $at + 4, 1) }
    $at += $length + 3 & ~3;
  }
  $seen++;
  my $take = $take{$prefix};
  $take->($payload) if $take && length $payload;
}

sub receive {
  if (!defined recv($socket, my $messages, 1 << 18, 0)) {
    die "recv: $!\n" unless $!{ENOBUFS} || $!{EINTR};
    $lost++ if $!{ENOBUFS};
    return;
  } else {
    for (my $at = 0; $at + 20 <= length $messages;) {
      my ($length, $type) = unpack("\@$at L S", $messages);
      last if $length < 16;
      take_packet($messages, $at + 20, $at + $length) if $type == 4 << 8;
      $at += $length + 3 & ~3;
    }
  }
}

sub report {
  return if !$seen && !$lost;
  print join('', map { "$_ $counted{$_}\n" } keys %counted), "end $seen $lost\n";
  (%counted, $seen, $lost) = ();
  ($seen, $lost) = (0, 0);
}

my $due = time + $every;
while (1) {
  my $ready = '';
  vec($ready, fileno $socket, 1) = 1;
  my $left = $due - time;
  receive() if select($ready, undef, undef, $left > 0 ? $left : 0) > 0;
  if (time >= $due) { report(); $due = time + $every }
}
