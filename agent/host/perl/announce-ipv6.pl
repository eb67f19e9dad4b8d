# Announces IPv6 addresses on a segment by unsolicited neighbour advertisements (RFC 4861, 7.2.6), so that routers
# replace the MAC that they know for an address. Argument: the interface. Standard input: one address per line.
#
# System calls: socket with SOCK_RAW, sendto (ICMPv6), ioctl with SIOCGIFINDEX and SIOCGIFHWADDR. Node has no raw
# sockets. The kernel announces only addresses of the host itself, and Debian has no usual tool for others.
use strict;
use Socket qw(inet_pton pack_sockaddr_in6 AF_INET6 SOCK_RAW);

my ($device) = @ARGV;
my ($icmpv6, $ipv6, $multicast_hops) = (58, 41, 18);
my ($siocgifindex, $siocgifhwaddr, $ethernet) = (0x8933, 0x8927, 1);
my ($advertisement, $target_link_address) = (136, 2);
# The flags say that the sender is a router, and that its MAC replaces another one. Home agents of Mobile IPv6 use the
# same flags for addresses that they proxy (RFC 6275, 10.4.1).
my $flags = 0xa0000000;
my $pause_seconds = 0.005; # between two packets, because a host can have thousands of addresses

socket(my $socket, AF_INET6, SOCK_RAW, $icmpv6) or die "socket: $!\n";
# Other hosts accept only advertisements with this hop limit, which routers would have reduced.
setsockopt($socket, $ipv6, $multicast_hops, pack('i', 255)) or die "hop limit: $!\n";

my $index = unpack('x16 i', ask_interface($siocgifindex));
my ($type, $mac) = unpack('x16 S a6', ask_interface($siocgifhwaddr));
die "$device is not an Ethernet interface\n" unless $type == $ethernet;
my $all_nodes = pack_sockaddr_in6(0, inet_pton(AF_INET6, 'ff02::1'), $index);

while (my $address = <STDIN>) {
  chomp $address;
  my $target = inet_pton(AF_INET6, $address) // die "$address: not an IPv6 address\n";
  # The kernel sets the checksum, which is 0 here. The option has a length of one unit of eight bytes.
  my $packet = pack('C C n N a16 C C a6', $advertisement, 0, 0, $flags, $target, $target_link_address, 1, $mac);
  defined send($socket, $packet, 0, $all_nodes) or die "$device: $!\n";
  select(undef, undef, undef, $pause_seconds);
}

sub ask_interface {
  my ($request) = @_;
  my $answer = pack('Z16 x24', $device);
  ioctl($socket, $request, $answer) or die "$device: $!\n";
  return $answer;
}
