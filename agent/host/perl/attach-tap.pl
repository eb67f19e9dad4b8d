# Attaches a new tap to a running QEMU after its tap was deleted. QEMU's descriptor outlives the interface and can be
# attached to another one, so QEMU does not notice (drivers/net/tun.c of Linux).
# Arguments: PID PROCS DEVICE BRIDGE MAC. PROCS is a file that lists PID as long as it is the virtual machine's process.
# Until the tap is complete, its name is DEVICE with an additional `n`.
#
# System calls: pidfd_open and pidfd_getfd (to copy QEMU's descriptor), ioctl with TUNSETIFF, TUNGETIFF and
# TUNSETVNETHDRSZ. No tool can use the descriptor of another process.
use strict;
use Fcntl qw(:DEFAULT);
require(__FILE__ =~ s{[^/]+\z}{common.pl}r);

my ($pid, $procs, $device, $bridge, $mac) = @ARGV;
my ($iff_tap, $iff_no_pi, $iff_vnet_hdr) = (0x0002, 0x1000, 0x4000);
my ($tunsetiff, $tungetiff, $tunsetvnethdrsz) = (0x400454ca, 0x800454d2, 0x400454d8);
# Size of the header for every virtio device on PCI Express (virtio 1.0, section 5.1.6).
my $header_bytes = 12;
my $unfinished = "${device}n";

my $process = ask("process $pid", 'pidfd_open', $pid + 0, 0);
open(my $listed, '<', $procs) or die "$procs: $!\n";
die "process $pid no longer belongs to the virtual machine\n" unless grep { $_ == $pid } <$listed>;

my $theirs = find_tap() // die "process $pid has no open TAP interface\n";
my $fd = ask("descriptor $theirs of $pid", 'pidfd_getfd', $process, $theirs + 0, 0);
open(my $tap, '+<&=', $fd) or die "descriptor $fd: $!\n";

my $name = attached();
if (!defined $name) {
  my $request = pack('Z16 s x22', $unfinished, $iff_tap | $iff_no_pi | $iff_vnet_hdr);
  ioctl($tap, $tunsetiff, $request) or die "tap $unfinished: $!\n";
  $name = $unfinished;
}
exit 0 if $name eq $device;
die "the TAP interface of process $pid is $name, not $device\n" unless $name eq $unfinished;
my $size = pack('i', $header_bytes);
ioctl($tap, $tunsetvnethdrsz, $size) or die "header size of $name: $!\n";
run_ip('link', 'set', 'dev', $name, 'address', $mac);
# One request sets all of these, so that an interface with the final name is always complete.
run_ip('link', 'set', 'dev', $name, 'name', $device, 'master', $bridge, 'up');
print "attached\n";

sub find_tap {
  for my $path (glob "/proc/$pid/fd/*") {
    return $1 if (readlink($path) // '') eq '/dev/net/tun' && $path =~ /(\d+)$/;
  }
  return undef;
}

# @returns the name of the tap's interface; undef if the interface was deleted
sub attached {
  my $request = "\0" x 40;
  return ioctl($tap, $tungetiff, $request) ? unpack('Z16', $request) : undef;
}

sub run_ip {
  system('/sbin/ip', @_) == 0 or die "ip @_ failed\n";
}
