# Prints flows of the connection tracking table. Arguments: `unreplied` for all flows that nobody has answered, or the
# addresses that opened the flows. Each flow is a line:
#
#   PROTOCOL SOURCE TARGET SPORT DPORT STATE LEFT BYTES REPLY_BYTES
#
# PROTOCOL is a number. STATE is `unreplied`, `replied`, or for TCP `t` and the state's number
# (linux/netfilter/nf_conntrack_tcp.h). LEFT is the number of seconds until the kernel forgets the flow. At most 20,000
# flows are printed for each address or family. The number of all others follows in a line `more NUMBER`.
#
# System calls: socket with AF_NETLINK, send, recv (nfnetlink_conntrack). Node has no netlink sockets. conntrack(8) cannot
# make the kernel filter by address, so it would read the whole table, and it is an optional package of Debian.
use strict;
use Socket qw(inet_ntop inet_pton AF_INET AF_INET6);

my ($most, $seen_reply) = (20_000, 2);
my $kernel = pack('S S L L', 16, 0, 0, 0);
socket(my $socket, 16, 3, 12) or die "socket: $!\n";
setsockopt($socket, 1, 33, pack('l', 4 << 20)); # SO_RCVBUFFORCE
bind($socket, $kernel) or die "bind: $!\n";

# Numbers of attributes (linux/netfilter/nfnetlink_conntrack.h).
my ($tuple_original, $status, $protocol_info, $timeout, $counters, $counters_reply) = (1, 3, 4, 7, 9, 10);
my ($filter, $status_mask) = (25, 26);

sub attribute {
  my ($type, $value) = @_;
  return pack('S S a*', 4 + length $value, $type, $value) . "\0" x (-length($value) & 3);
}

sub attributes {
  my ($message, $at, $end) = @_;
  my %found;
  while ($at + 4 <= $end) {
    my ($length, $type) = unpack("\@$at S S", $message);
    last if $length < 4;
    $found{ $type & 0x3fff } = [$at + 4, $at + $length];
    $at += $length + 3 & ~3;
  }
  return \%found;
}

sub value { my ($message, $found) = @_; $found ? substr($message, $found->[0], $found->[1] - $found->[0]) : '' }

sub show {
  my ($family, $message, $end) = @_;
  my $flow = attributes($message, 20, $end);
  my $bits = unpack('N', value($message, $flow->{$status}) || "\0\0\0\0");
  my $tuple = $flow->{$tuple_original} or return 0;
  my $original = attributes($message, @$tuple);
  my $ip = attributes($message, @{ $original->{1} });
  my $layer4 = attributes($message, @{ $original->{2} });
  my $protocol = unpack('C', value($message, $layer4->{1}));
  my ($sport, $dport) = map { $layer4->{$_} ? unpack('n', value($message, $layer4->{$_})) : 0 } 2, 3;
  my ($source, $target) = map { value($message, $ip->{$_}) } $family == AF_INET ? (1, 2) : (3, 4);
  my $state = $bits & $seen_reply ? 'replied' : 'unreplied';
  if ($protocol == 6 && $flow->{$protocol_info}) {
    my $tcp = attributes($message, @{ $flow->{$protocol_info} })->{1};
    my $number = $tcp && attributes($message, @$tcp)->{1};
    $state = 't' . unpack('C', value($message, $number)) if $number;
  }
  my ($bytes, $reply_bytes) = map {
    my $counted = $flow->{$_} && attributes($message, @{ $flow->{$_} })->{2};
    $counted ? unpack('Q>', value($message, $counted)) : 0
  } $counters, $counters_reply;
  print join(' ', $protocol, inet_ntop($family, $source), inet_ntop($family, $target), $sport, $dport, $state,
    unpack('N', value($message, $flow->{$timeout}) || "\0\0\0\0"), $bytes, $reply_bytes), "\n";
  return 1;
}

sub dump_flows {
  my ($family, $asked, $unreplied) = @_;
  my $body = pack('C C n', $family, 0, 0) . $asked;
  my $request = pack('L S S L L', 16 + length $body, 1 << 8 | 1, 0x301, 1, 0) . $body;
  defined send($socket, $request, 0, $kernel) or die "send: $!\n";
  my ($shown, $left_out) = (0, 0);
  for (my $more = 1; $more;) {
    defined recv($socket, my $messages, 1 << 18, 0) or die "recv: $!\n";
    for (my $at = 0; $at + 16 <= length $messages;) {
      my ($length, $type) = unpack("\@$at L S", $messages);
      die "the kernel sent an answer of only $length bytes\n" if $length < 16;
      if ($type == 3) { $more = 0 }
      elsif ($type == 2) { my $error = -unpack("\@" . ($at + 16) . ' l', $messages); die "the kernel refused the request with errno $error\n" if $error; $more = 0 }
      elsif ($shown >= $most) { $left_out++ }
      else { $shown += show($family, substr($messages, $at, $length), $length) }
      $at += $length + 3 & ~3;
    }
  }
  print "more $left_out\n" if $left_out;
}

# Linux before 5.15 does not support the filter by status and sends all flows, so the agent also checks the state.
if ($ARGV[0] eq 'unreplied') {
  my $asked = attribute($status, pack('N', 0)) . attribute($status_mask, pack('N', $seen_reply));
  dump_flows($_, $asked) for AF_INET, AF_INET6;
  exit;
}
# The flags in CTA_FILTER make the kernel compare only the source address.
for my $address (@ARGV) {
  my $family = $address =~ /:/ ? AF_INET6 : AF_INET;
  my $packed = inet_pton($family, $address) // die "not an IP address: $address\n";
  my $ip = attribute(0x8001, attribute($family == AF_INET ? 1 : 3, $packed));
  my $flags = attribute(1, pack('L', 1)) . attribute(2, pack('L', 0));
  dump_flows($family, attribute(0x8000 | $tuple_original, $ip) . attribute(0x8000 | $filter, $flags));
}
