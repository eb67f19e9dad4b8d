# Prints the kernel's notifications about changes of the network, until it is killed. Arguments: the nft table, the bridge,
# the prefix of guests' interfaces. Each line contains the kind of change and the port of the netlink socket that made it,
# which usually is the pid of the process:
#
#   ready          notifications are printed from now on
#   tables PID     the nft table has changed, in any family
#   others PID     another nft table has changed
#   rates PID      a qdisc, class or filter of any interface has changed
#   links 0        the bridge, a guest's interface or IFB, or an address of any interface has changed
#   lost           notifications were lost
#
# System calls: socket with AF_NETLINK, recv. Node has no netlink sockets. `nft monitor` would keep a copy of every table,
# whereas this process takes 6 MiB.
use strict;
use Errno;

$0 = 'berth-netlink-watch'; # the name in ps(1)
$| = 1;

my ($table, $bridge, $prefix) = @ARGV;
my ($netlink, $raw, $route, $netfilter) = (16, 3, 0, 12);
my ($new_generation, $del_link, $del_address, $new_qdisc) = (15, 17, 21, 36);
my $guest = qr/^\Q$prefix\E\d+u?$/;
my (%told, $touched, $others);

sub subscribe {
  my ($protocol, @groups) = @_;
  socket(my $socket, $netlink, $raw, $protocol) or die "socket: $!\n";
  setsockopt($socket, 1, 33, pack('l', 8 << 20)); # SO_RCVBUFFORCE
  my $mask = 0;
  $mask |= 1 << $_ - 1 for @groups;
  bind($socket, pack('S S L L', $netlink, 0, 0, $mask)) or die "bind: $!\n";
  return $socket;
}

sub report { print "$_[0]\n" unless $told{$_[0]}++ }

# Returns the value of an attribute between two offsets of the message in $_.
sub attribute {
  my ($at, $end, $wanted) = @_;
  while ($at + 4 <= $end) {
    my ($length, $type) = unpack("\@$at S S", $_);
    last if $length < 4;
    return substr($_, $at + 4, $length - 4) if ($type & 0x3fff) == $wanted;
    $at += $length + 3 & ~3;
  }
  return '';
}

# Handles an nft message. Each message contains its table. The last message of a transaction also names the process that
# made the transaction.
sub take_nft {
  my ($type, $at, $end) = @_;
  if (($type & 255) != $new_generation) {
    if (attribute($at + 4, $end, 1) eq "$table\0") { $touched = 1 } else { $others = 1 }
    return;
  }
  my $pid = unpack('N', attribute($at + 4, $end, 2));
  report("tables $pid") if $touched;
  report("others $pid") if $others;
  $touched = $others = 0;
}

sub take_route {
  my ($type, $at, $end, $pid) = @_;
  if ($type >= $new_qdisc) { report("rates $pid") }
  elsif ($type > $del_link) { report('links 0') if $type <= $del_address }
  else {
    my $name = unpack('Z*', attribute($at + 16, $end, 3));
    report('links 0') if $name eq $bridge || $name =~ $guest;
  }
}

my @watched = (
  [subscribe($netfilter, 7), \&take_nft], # NFNLGRP_NFTABLES
  [subscribe($route, 1, 4, 5, 9), \&take_route], # RTNLGRP_LINK, _TC, _IPV4_IFADDR, _IPV6_IFADDR
);
print "ready\n";
while (1) {
  my $ready = '';
  vec($ready, fileno $_->[0], 1) = 1 for @watched;
  select($ready, undef, undef, undef);
  %told = ();
  for my $one (grep { vec($ready, fileno $_->[0], 1) } @watched) {
    my ($socket, $take) = @$one;
    defined recv($socket, $_, 1 << 18, 0) or report('lost'), next;
    for (my $at = 0; $at + 16 <= length;) {
      my ($length, $type, undef, undef, $pid) = unpack("\@$at L S S L L", $_);
      last if $length < 16;
      $take->($type, $at + 16, $at + $length, $pid);
      $at += $length + 3 & ~3;
    }
  }
}
